"""Kernels generated as LLVM's text, compiled, checked against tiles, and kept in files.

    kernels.py       programs run by kernels             checking.py   against tiles, before use
    staging.py       what is done in registers together  loops.py      NumPy's own inner loops
    operations.py    operations as instructions          llvm_ir.py    kernels as text
    llvm_moments.py  kernels that go over blocks twice   compiler.py   in another thread
    kernel_files.py  kernels on disk
"""
