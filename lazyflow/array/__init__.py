"""Chunked arrays with NumPy's semantics: whole expressions become one kernel per chunk."""
