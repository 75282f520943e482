"""How a fused task runs over its blocks; knows nothing of chunks, expressions or tasks.

In reading order:

    program.py   what is computed                   lowering.py  programs as plain steps
    order.py     the one order of reductions        moments.py   counts, means and squares in it
    planning.py  passes and buffers, by shapes      reports.py   NumPy's warnings, each once
    outputs.py   the arrays of results              tiles.py     run by ufuncs, tile by tile
    native/      run by generated kernels           describe.py  which way a program runs, in words
    run.py       run_program, merge, report         draws/       random numbers by their places

`run_program` lowers a program once, plans it once for each tuple of shapes, and runs each pass of
the plan by a kernel where `native.kernels.PlanKernels.decide` says so, else by tiles; both give
the same bits.
"""
