"""Searches of hyperparameters, on any scheduler.

>>> from lazyflow import tune
>>> def train(config):
...     for step in range(1, 10):
...         tune.report(loss=(config["x"] - 1) ** 2 + 1 / step)
>>> result = tune.run(train, {"x": tune.uniform(-3, 3)}, metric="loss", num_samples=40,
...                   pruner=tune.ASHA(max_t=9), scheduler="threads", seed=0, verbose=0)
>>> abs(result.best.config["x"] - 1) < 0.3
True

A *trial* runs a function with one *configuration* that a *sampler* draws from the *space*; at
each report a *pruner* decides whether the trial continues. Ray and NNI use other names: the
sampler is the tuner or the search algorithm, the pruner the assessor or the trial scheduler, the
search the experiment.

The modules::

    search     run and resume: the loop
    space      domains of parameters; samplers, which choose the next configuration
    stopping   decides which trials continue
    runners    where trials run, and how many at once
    trial      the record of a trial, its folder, and functions that a trial's function calls
    result     results of a search, and pictures of them
    callbacks  hooks, TensorBoard, and the table of progress

    model_selection  GridSearchCV and its relatives: all fits as one graph, which share steps

Samplers that learn, and the table in a terminal, need ``pip install "lazyflow[tune]"``.
"""

from typing import TYPE_CHECKING, Any

from lazyflow.services import public_name

if TYPE_CHECKING:
    from lazyflow.tune.callbacks import Callback, TensorBoardCallback
    from lazyflow.tune.model_selection import (
        GridSearchCV,
        HalvingGridSearchCV,
        HalvingRandomSearchCV,
        RandomizedSearchCV,
    )
    from lazyflow.tune.result import SearchResult
    from lazyflow.tune.search import resume, run
    from lazyflow.tune.space import (
        choice,
        grid_search,
        lograndint,
        loguniform,
        qloguniform,
        qrandint,
        quniform,
        randint,
        sample_from,
        uniform,
    )
    from lazyflow.tune.stopping import ASHA, PBT, HyperBand, MedianStopping, Pruner, TrialDecision
    from lazyflow.tune.trial import Trial, load_state, report, trial_number

__all__ = [
    "ASHA",
    "PBT",
    "Callback",
    "GridSearchCV",
    "HalvingGridSearchCV",
    "HalvingRandomSearchCV",
    "HyperBand",
    "MedianStopping",
    "Pruner",
    "RandomizedSearchCV",
    "SearchResult",
    "TensorBoardCallback",
    "Trial",
    "TrialDecision",
    "choice",
    "grid_search",
    "load_state",
    "lograndint",
    "loguniform",
    "qloguniform",
    "qrandint",
    "quniform",
    "randint",
    "report",
    "resume",
    "run",
    "sample_from",
    "trial_number",
    "uniform",
]

_MODULES = {
    "callbacks": "Callback TensorBoardCallback",
    "model_selection":
        "GridSearchCV HalvingGridSearchCV HalvingRandomSearchCV RandomizedSearchCV",
    "result": "SearchResult",
    "search": "resume run",
    "space":
        "choice grid_search lograndint loguniform qloguniform qrandint quniform randint "
        "sample_from uniform",
    "stopping": "ASHA HyperBand MedianStopping PBT Pruner TrialDecision",
    "trial": "Trial load_state report trial_number",
}


def __getattr__(name: str) -> Any:
    found = globals()[name] = public_name(__name__, _MODULES, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
