"""Elementary functions of our own, on vectors: within a unit in the last place, on every processor.

In reading order:

    lanes.py          formulae in Python as LLVM's instructions
    exponentials.py   logarithms.py   powers.py   trigonometric.py
    inverses.py       the inverse tangent
    division.py       quotients that are whole numbers, with NumPy's bits
    formulas.py       the functions by name, as text
    ufuncs.py         ufuncs of them

Kernels call the functions on vectors of 16 numbers in registers; arrays that are computed without
a kernel go through ufuncs made of the same instructions, so that the bits are the same. Numbers of
single precision are computed in it, by the same formulae with shorter polynomials.
"""
