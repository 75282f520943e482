"""Elementary functions of our own, on vectors: within a unit in the last place, on every processor.

In reading order:

    lanes.py          formulae in Python as LLVM's instructions
    powers.py         exponentials, logarithms and powers
    formulas.py       sines, tangents, and quotients that are whole numbers; all functions by name,
                      as text
    ufuncs.py         ufuncs of them

Kernels call the functions on vectors of 16 numbers in registers; arrays that are computed without
a kernel go through ufuncs made of the same instructions, so that the bits are the same. Numbers of
single precision are computed in it, by the same formulae with shorter polynomials.
"""
