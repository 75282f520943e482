"""Values and functions as bytes.

The modules in reading order: `serialize` (`encode` and `decode`), `pickler` (what travels by which
means, and values that stay where they are), `classes` (classes by value), `functions` (functions by
name or by value, with a digest of their code, and whether they carry state), `frames` (tables of
Arrow and polars), `unpicklable` (where
inside a value the culprit is, when pickling fails, and containers deeper than pickle can follow).
"""
