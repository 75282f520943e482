"""Functions that give arrays another shape, order or neighbours."""
