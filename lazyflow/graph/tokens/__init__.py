"""Names made of content: equal objects have equal tokens, on any machine.

The modules in reading order: `tokenize` names pure tasks; its `contents` returns the parts that an
object consists of: of containers, functions and classes, and of objects of NumPy, SciPy, pandas and
Numba; `digests` hashes those parts, also where an object refers to itself.
"""
