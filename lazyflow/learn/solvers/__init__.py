"""Solvers written as graphs: each is a loop around tasks that read the chunks.

`problem`        the objective: a mean loss and penalties, as one graph that is kept
`stopping`       when a solver stops, and its result; the duality gap, the Newton step
`lbfgs`          SciPy's L-BFGS around a tree of gradients, in well-curved coordinates
`newton`         Newton steps by a tree of Hessians
`stochastic`     SAGA, over all rows or in visits to chunks; SVRG, in all chunks at once
`least_squares`  R factors in a tree (TSQR), normal equations, coordinate descent
`minimize`       any function of chunks, by SciPy's L-BFGS

They take a `Problem` and return a `Solution`; `lazyflow.learn.estimators` wraps them.
"""
