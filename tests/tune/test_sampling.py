"""Samplers that learn, which are Optuna's."""

import pytest

from lazyflow import tune
from lazyflow.tune.space import leaves_of

optuna = pytest.importorskip("optuna")

SPACE = {
    "x": tune.uniform(-2, 2), "rate": tune.loguniform(1e-3, 1), "n": tune.randint(1, 9),
    "even": tune.qrandint(0, 6, 2), "deep": [tune.choice([(1, 2), "b"]), 3],
    "half": tune.quniform(0, 1, 0.5), "log": tune.lograndint(1, 9),
    "rough": tune.qloguniform(1, 9, 2),
}


def hard(config):
    loss = config["x"] ** 2 + abs(config["n"] - 4) + (config["deep"][0] != "b")
    tune.report(loss=loss)


@pytest.mark.parametrize("sampler", ["tpe", optuna.samplers.TPESampler(seed=1),
                                     optuna.samplers.RandomSampler(seed=1)])
def test_values_are_of_the_space_and_get_better(sampler):
    result = tune.run(hard, SPACE, metric="loss", num_samples=60, sampler=sampler, seed=1,
                      scheduler="sync", verbose=0)
    for trial in result.trials:
        c = trial.config
        assert -2 <= c["x"] <= 2 and 1e-3 <= c["rate"] <= 1 and c["n"] in range(1, 9)
        assert c["even"] in (0, 2, 4, 6) and type(c["even"]) is int
        assert c["deep"][0] in ((1, 2), "b") and c["deep"][1] == 3
        assert c["half"] in (0.0, 0.5, 1.0) and c["log"] in range(1, 9)
        assert c["rough"] in (1.0, 3.0, 5.0, 7.0, 9.0)
    if sampler == "tpe":
        losses = [trial.metrics["loss"] for trial in result.trials]
        assert sum(losses[-20:]) < 0.7 * sum(losses[:20])


def test_the_same_seed_gives_the_same_trials_one_after_the_other():
    def configs(scheduler):
        result = tune.run(hard, SPACE, metric="loss", num_samples=15, sampler="tpe", seed=7,
                          scheduler=scheduler, max_concurrent=1, verbose=0)
        return [leaves_of(trial.config) for trial in result.trials]

    assert configs("sync") == configs("threads") == configs("processes")


def test_on_every_scheduler_with_grids_failures_and_early_stopping(scheduler):
    def flaky(config):
        if tune.trial_number() == 3:
            raise ValueError("once")
        for _ in range(3):
            tune.report(score=config["x"] + config["g"])

    result = tune.run(flaky, {"x": tune.uniform(0, 1), "g": tune.grid_search([0, 5])},
                      metric="score", mode="max", num_samples=8, sampler="tpe", max_concurrent=2,
                      pruner=optuna.pruners.MedianPruner(), seed=1, verbose=0)
    assert len(result.trials) == 16 and list(result.errors) == [3]
    assert [trial.config["g"] for trial in result.trials] == [0, 5] * 8
    assert result.best.config["g"] == 5


# older versions of Optuna call the evaluator experimental
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_importance():
    result = tune.run(lambda c: 10 * c["x"] ** 2 + c["y"], metric="loss", num_samples=60,
                      space={"x": tune.uniform(-1, 1), "y": tune.uniform(0, 0.1)}, seed=1,
                      scheduler="sync", verbose=0)
    figure = result.plot("importance")
    assert list(figure.y_range.factors)[-1] == "x"
