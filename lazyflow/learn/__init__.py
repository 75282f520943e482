"""Solvers written as graphs of `delayed` calls, to be read as examples and to be used.

`lbfgs`   softmax regression: full gradients by a tree of sums, one traced graph, SciPy's L-BFGS
`saga`    one-against-rest logistic regression: one state carried from chunk to chunk

Beside them: `chunks` checks rows once and adds up what chunks give; `objective` has losses;
`curvature` and `visits` say how long SAGA's steps and visits are; `result` is what comes back;
`trees` has arrays in dicts and lists. `examples` has small programs on futures and worker states.

Nothing is imported here, so that a program loads only the solver it uses.
"""

__all__ = [
    "chunks", "curvature", "examples", "lbfgs", "objective", "result", "saga", "trees", "visits"
]
