"""Functions of solvers on the rows of one chunk: arrays only, without graphs.

`compiling`     how kernels are compiled
`losses`        the three losses, all there is of each: in NumPy, and compiled for one row
`sums`          loss, gradient and Hessian of one chunk, dense or sparse, read in tiles
`tiles`         scores, exponentials and sums of a few rows, used by the others
`pointers`      any number of arrays as one argument, by the addresses of their memory
`steps`         steps of SAGA and SVRG through blocks of dense rows, and through sparse rows
`blocks`        how curved blocks of rows are, which bounds the steps
"""
