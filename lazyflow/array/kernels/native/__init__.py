"""Kernels generated as LLVM's text, compiled, checked against tiles, and kept in files.

In reading order:

    operations.py    operations as LLVM's instructions   loops.py        NumPy's own inner loops
    elementary/      exp, log, ... of our own            modules.py      their text in full
    staging.py       steps done in registers together    llvm_ir.py      kernels as text
    llvm_moments.py  kernels that read blocks twice      compiler.py     text to code, in a thread
    kernel_files.py  code on disk                        layouts.py      how sources lie in memory
    calling.py       a kernel called over a block        checking.py     its bits against tiles
    kernels.py       the decision between kernel and tiles
"""
