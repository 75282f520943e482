"""Index arrays, functions that take elements by their indices, and ``x[key] = value``."""
