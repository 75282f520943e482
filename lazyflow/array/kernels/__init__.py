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

`run_program` lowers a program once and plans it once for each tuple of shapes.
`native.kernels.PlanKernels.decide` looks for a kernel for each pass: kernels run the plan if all
passes have one that is compiled, else NumPy's functions run it on whole blocks. Both give the same
bits.
"""
