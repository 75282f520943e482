"""Functions of solvers on the rows of one chunk: arrays only, without graphs.

`primitives`    how kernels are compiled, arrays by address, loops over a few rows
`losses`        the three losses, all there is of each: in NumPy, and compiled for one row
`sums`          loss, gradient and Hessian of one chunk, dense or sparse, read in tiles
`steps`         steps of SAGA and SVRG through dense and through sparse rows, and what bounds them
"""
