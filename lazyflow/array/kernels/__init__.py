"""How a fused task runs over its blocks; knows nothing of chunks, expressions or tasks.

    program.py   what is computed                   run.py       run_program, merge, report
    lowering.py  programs as plain calls            planning.py  calls and buffers by shapes
    order.py     the one order of reductions        moments.py   of means and variances
    tiles.py     by ufuncs, tile by tile            outputs.py   where results go
    reports.py   NumPy's warnings, once             describe.py  what runs how, in words
    native/      by generated kernels, which give the bits of tiles
"""
