"""Solvers written as graphs of `delayed` calls, to be read as examples and to be used.

`lbfgs`   softmax regression: full gradients by a tree of sums, one traced graph, SciPy's L-BFGS
`saga`    one-against-rest logistic regression: one state carried from chunk to chunk

`chunks`     rows that are checked once, and sums over chunks
`objective`  losses
`curvature`, `visits`  the lengths of SAGA's steps and visits
`result`     coefficients, and the trace of the convergence
`trees`      arrays in dicts and lists, for `lazyflow.weights`
`fitted`     the arrays of scikit-learn's estimators, for `lazyflow.weights`
`examples`   small programs on futures and worker states

Nothing is imported here, so that a program loads only the solver it uses.
"""

__all__ = [
    "chunks", "curvature", "examples", "fitted", "lbfgs", "objective", "result", "saga", "trees",
    "visits",
]
