"""Linear models as graph programs: on arrays in memory, on chunks, on workers.

>>> import numpy as np
>>> import lazyflow.array as la
>>> from lazyflow.learn import LogisticRegression
>>> X = la.random.default_rng(0).normal(size=(1000, 3), chunks=(100, -1))
>>> y = X.sum(axis=1) > 0
>>> model = LogisticRegression().fit(X, y)
>>> model.score(X, y) > 0.99, model.predict(X)
(True, lazyflow.Array<_predicted, shape=(1000,), dtype=bool, chunksize=(100,)>)

Names, objectives and results are scikit-learn's. Chunked data is never gathered: a fit reads the
chunks where they are, and predictions for chunks are lazy chunks.

The path of one ``fit``, in reading order::

    data/        rows in parts, checked, kept on the workers
    kernels/     losses, their gradients and SAGA's steps for the rows of one chunk, without graphs
    solvers/     loops around graphs: L-BFGS, Newton, SAGA, SVRG, least squares, minimize
    estimators/  estimators with scikit-learn's names
    parallel     networks of PyTorch and Keras, trained in actors that hold one copy each
    chunked/     scaling, splitting and scores of chunked arrays
    examples/    small programs on futures and worker states; SAGA as written for dask in 2017
    fitted       the arrays that models have learned, in dicts and lists, for lazyflow.weights

Where to look::

    a loss is defined        kernels/losses.py: a new loss for SAGA and all others goes there
    rows become chunks       data/inputs.py: `parts_of`
    a step of SAGA           kernels/steps.py; the order of its rows: solvers/stochastic.py
    a solver stops           solvers/stopping.py: `StopRule`
    "auto" chooses a solver  estimators/logistic_regression.py: `_solver_of`; `fit` of the others

Modules are imported on first use. Estimators and `chunked` need scikit-learn:
``pip install "lazyflow[learn]"``.
"""

from typing import TYPE_CHECKING, Any

from lazyflow.services import public_name

if TYPE_CHECKING:
    from lazyflow.learn.chunked.metrics import (
        accuracy_score,
        log_loss,
        mean_squared_error,
        r2_score,
    )
    from lazyflow.learn.chunked.scaling import StandardScaler
    from lazyflow.learn.chunked.splitting import train_test_split
    from lazyflow.learn.estimators.least_squares import ElasticNet, Lasso, LinearRegression, Ridge
    from lazyflow.learn.estimators.logistic_regression import LogisticRegression
    from lazyflow.learn.parallel import DataParallel
    from lazyflow.learn.solvers.minimize import minimize

__all__ = [
    "DataParallel", "ElasticNet", "Lasso", "LinearRegression", "LogisticRegression", "Ridge",
    "StandardScaler", "accuracy_score", "log_loss", "mean_squared_error", "minimize", "r2_score",
    "train_test_split",
]

_MODULES = {
    "chunked.metrics": "accuracy_score log_loss mean_squared_error r2_score",
    "chunked.scaling": "StandardScaler",
    "chunked.splitting": "train_test_split",
    "estimators.least_squares": "ElasticNet Lasso LinearRegression Ridge",
    "estimators.logistic_regression": "LogisticRegression",
    "parallel": "DataParallel",
    "solvers.minimize": "minimize",
}


def __getattr__(name: str) -> Any:
    found = globals()[name] = public_name(__name__, _MODULES, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
