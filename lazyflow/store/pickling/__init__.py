"""Values and functions as bytes.

The modules in reading order: `serialize` (`encode` and `decode`), `pickler` (what travels by which
means), `files` and `variables` (values that stay where they are), `functions` (functions by name
or by value, with a digest of their code), `nested` (containers deeper than pickle can follow),
`parts` and `unpicklable` (where inside a value the culprit is, when pickling fails).
"""
