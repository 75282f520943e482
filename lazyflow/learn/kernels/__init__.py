"""Functions of solvers on the rows of one chunk: arrays only, without graphs.

`losses`        the three losses: values, residuals, curvatures; of logistic regression in Numba
`sums`          loss, gradient and Hessian of one chunk, dense or sparse, read in tiles
`tiles`         scores, exponentials and sums of a few rows, used by the others
`pointers`      any number of arrays as one argument, by the addresses of their memory
`derivatives`   derivatives of the losses for one row, for the kernels of steps
`steps`         steps of SAGA and SVRG through blocks of dense rows, and through sparse rows
`blocks`        how curved blocks of rows are, which bounds the steps
"""
