"""Index arrays, functions that take elements by their places, and ``x[key] = value``."""
