"""Small whole programs, to be read and run: ``python -m lazyflow demo --example NAME``.

`parameter_averaging`   each worker trains a copy of a model; the weights are averaged
`gradient_averaging`    each worker has a gradient; their mean moves one set of weights
`batched_lbfgs`         SciPy's L-BFGS around a loss whose batches stay where the workers are
`block_cyclic`          SAGA through whole chunks in a fixed order, which stalls, and two cures

Each has ``main(scheduler)``, which prints what it does and returns the outcome. They run unchanged
on every scheduler, and give the same bits there. `linear` has the model of the first two, in
NumPy; `frameworks` has it in PyTorch and Keras.
"""

__all__ = [
    "batched_lbfgs", "block_cyclic", "frameworks", "gradient_averaging", "linear",
    "parameter_averaging",
]
