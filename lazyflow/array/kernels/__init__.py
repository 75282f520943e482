"""How a fused task runs over its blocks; knows nothing of chunks, expressions or tasks.

program.py      what is computed                        run.py        run_program, merge, report
lowering.py     programs as plain calls                 planning.py   calls and buffers by shapes
order.py        the one order of reductions             moments.py    of means and variances
tiles.py        (a) by ufuncs, tile by tile             outputs.py      where results go
reports.py      NumPy's warnings, once                  describe.py    what runs how, in words

kernels.py       (b) by generated kernels                checking.py   against (a), before use
staging.py      what is done in registers together      loops.py      NumPy's own inner loops
operations.py   operations as instructions              llvm_ir.py    kernels as text
llvm_moments.py kernels that go over blocks twice       compiler.py   in the background, by llvmlite
kernel_files.py kernels on disk
"""
