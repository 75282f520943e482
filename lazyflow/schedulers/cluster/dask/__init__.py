"""`scheduler="distributed"`: the only folder that imports distributed."""
