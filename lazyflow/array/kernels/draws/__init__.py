"""Random numbers and ranges as functions of an element's place: any part of an array at once.

In reading order:

    block.py       a region that is not drawn yet; kernels draw it as they go
    draw.py        what is drawn
    formulas.py    from counters to numbers: Philox, uniform, normal, gamma, whole numbers, tables,
                   and numbers at equal distances
    tables.py      few numbers and their chances, as parameters of a formula
    by_numpy.py    the formulas on arrays          by_llvm.py    the formulas as LLVM's text
    fill.py        a region filled by a kernel, or by NumPy where there is none

A formula is written once, in arithmetic that NumPy and LLVM do alike: integers that wrap, and
IEEE's own operations, never contracted. So both ways give the same bits.
"""
