"""Kernels generated as LLVM's text, compiled, checked against NumPy, and kept in files.

In reading order:

    blocks.py        text of LLVM's, and its types       loops.py        NumPy's own inner loops
    operations.py    operations as LLVM's instructions
    elementary/      exp, log, ... of our own            modules.py      their text in full
    staging.py       steps done in registers together    llvm_text.py    loops as text
    elements.py      what a loop computes in registers   compiler.py     text to code, in a thread
    llvm_ir.py       kernels as text                     kernel_files.py code on disk
    llvm_reductions.py  their reductions                llvm_merging.py  of blocks to one result
    layouts.py       how sources lie in memory           calling.py      kernels called over blocks
    checking.py      its bits against NumPy's            kernels.py      whether a kernel is used
    counting.py      kernels of their own: elements counted by bins
"""
