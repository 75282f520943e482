"""Small complete programs to read and run: ``python -m lazyflow demo --example NAME``.

`parameter_averaging`   each worker trains a copy of a model; the weights are averaged
`gradient_averaging`    each worker has a gradient; their mean moves one set of weights
`batched_lbfgs`         SciPy's L-BFGS around a loss whose batches stay where the workers are
`parameter_server`      gradients move the weights as they arrive, pushed by the workers
`data_parallel`         a network in four actors, whose gradients go up a tree of handles
`evolution`             a cart-pole policy, learned by trying out its neighbours
`serving`               a model behind HTTP: batches, back pressure, replicas that may die
`block_cyclic`          SAGA through whole chunks in a fixed order, which stalls, and two cures

Each has ``main(scheduler)``, which prints its steps and returns the outcome. They run unchanged
on every scheduler, and give the same bits on each. `frameworks` has the model of the averaging
examples and of the parameter server, in NumPy, TensorFlow, PyTorch and Keras.
"""

__all__ = [
    "batched_lbfgs", "block_cyclic", "data_parallel", "evolution", "frameworks",
    "gradient_averaging", "parameter_averaging", "parameter_server", "serving",
]
