"""Kernels generated as LLVM's text, compiled, checked against NumPy, and kept in files.

In reading order:

    operations.py       operations as LLVM's instructions, and the text of blocks
    elementary/         exp, log, ... of our own
    staging.py          steps done in registers together    llvm_text.py     modules, loops as text
    compiler.py         text to code, in a thread, and code on disk
    llvm_reductions.py  reductions and scans as text
    llvm_ir.py          kernels as text, and how they merge blocks to one result
    calling.py          how sources lie in memory, and kernels called over blocks
    kernels.py          whether a kernel is used: it is checked against NumPy's bits before
    counting.py         kernels of their own: elements counted by bins
"""
