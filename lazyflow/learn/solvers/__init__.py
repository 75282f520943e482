"""Solvers written as graphs: each is a loop around tasks that read the chunks.

`problem`             the objective: a mean loss and penalties, as one graph that is kept
`stopping`            when a solver stops, and its result; the duality gap, the Newton step
`lbfgs`               SciPy's L-BFGS around a tree of gradients, in well-curved coordinates
`newton`              Newton steps by a tree of Hessians
`saga`                stochastic steps: `sampling` of all rows, or in visits to chunks
`svrg`                stochastic passes over all chunks at once, and a line search
`schedule`            lengths of steps, and the order of blocks and visits
`least_squares`       R factors in a tree (TSQR), and normal equations
`coordinate_descent`  the elastic net on the products of the features
`minimize`            any function of chunks, by SciPy's L-BFGS

They take a `Problem` and return a `Solution`; `lazyflow.learn.estimators` wraps them.
"""
