"""What solvers do with the rows of one chunk: functions of arrays, without graphs.

`losses`        the three losses: values, residuals, curvatures; of logistic regression in Numba
`sums`          loss, gradient and Hessian of one chunk, dense or sparse, read in tiles
`tiles`         scores, exponentials and sums of a few rows, of which the others are made
`pointers`      any number of arrays as one argument, by where their memory is
`derivatives`   derivatives of the losses for one row, for the kernels of steps
`steps`         steps of SAGA and SVRG through blocks of dense rows, and through sparse rows
`blocks`        how curved blocks of rows are, which bounds the steps
"""
