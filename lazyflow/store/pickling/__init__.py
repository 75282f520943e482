"""Values and functions as bytes.

The modules in reading order: `serialize` (`encode` and `decode`), `pickler` (how each kind of
object travels), `classes` (classes by value), `functions` (functions by name or by value, with a
digest of their code, and whether they carry state), `frames` (tables of Arrow and polars),
`unpicklable` (the object inside a value that can't be pickled, and containers that are too deep for
pickle).
"""
