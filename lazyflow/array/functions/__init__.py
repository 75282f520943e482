"""Functions of arrays by NumPy's chapters, found by name in the table of names.py."""
