"""Names made of content: equal objects have equal tokens, on any machine.

The modules in reading order: `tokenize` is what a pure task is named by; `contents` returns the
parts that an object consists of, by the rules in `containers`, `code_contents` (functions and
classes) and `library_contents` (NumPy, SciPy, pandas, Numba); `digests` hashes those parts, also
where an object refers to itself.
"""
