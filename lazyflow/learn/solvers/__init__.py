"""Solvers written as graphs: each is a loop around tasks that read the chunks.

`problem`             what is minimised: a mean loss and penalties, as one graph that is kept
`history`             the trace of a solver, its tests for stopping, and what it returns
`certificate`         the exact duality gap
`newton_step`         a Newton step, and what it promises where there is no gap
`coordinates`         coordinates in which a loss is about as curved along all of them
`lbfgs`               SciPy's L-BFGS around a tree of gradients
`newton`              Newton steps by a tree of Hessians
`saga`                stochastic steps: `sampling` of all rows, or in visits to chunks
`svrg`                stochastic passes over all chunks at once, and a line search
`schedule`            lengths of steps, and the order of blocks and visits
`least_squares`       R factors in a tree (TSQR), and normal equations
`coordinate_descent`  the elastic net on the products of the features
`minimize`            any function of chunks, by SciPy's L-BFGS

They take a `Problem` and return a `Solution`; `lazyflow.learn.estimators` has what wraps them.
"""
