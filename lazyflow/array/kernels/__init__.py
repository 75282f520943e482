"""How a fused task runs over its blocks; knows nothing of chunks, expressions or tasks.

In reading order:

    order.py           kinds of reductions, and the one order in which they go through values
    program.py         what is computed, and the same as plain steps in the dtypes of operations
    planning.py        steps and passes, by shapes
    float_warnings.py  NumPy's warnings, each once
    numpy_kernels.py   run by NumPy's functions
    native/            run by generated kernels
    run.py             run_program, merge, report
    draws/             random numbers by their places

`run_program` lowers a program once and plans it once for each tuple of shapes. It is run by
kernels, a pass each, where `native.kernels.PlanKernels.decide` finds one for every pass and they
are compiled; else by NumPy's functions on whole blocks. Both give the same bits.
"""
