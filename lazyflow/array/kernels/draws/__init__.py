"""Random numbers and ranges as functions of an element's place: any part of an array at once.

In reading order:

    formulas.py    from counters to numbers: Philox, uniform, normal, gamma, whole numbers, tables,
                   and numbers at equal distances
    draw.py        the formulas as LLVM's text; what is drawn, of a region that kernels draw as they
                   go, or that is filled by a kernel, or by NumPy where there is none

A formula is written once, in arithmetic that NumPy and LLVM do alike: integers that wrap, and
IEEE's own operations, never contracted. So both ways give the same bits.
"""
