"""Early stopping, on planted curves and against the algorithms written out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazyflow import tune
from lazyflow.tune.space import Space
from lazyflow.tune.trial import Trial

optuna = pytest.importorskip("optuna")

SPACE = {"x": tune.uniform(0, 1)}


def curve(config):
    """Falls towards its end, x, so that the best is the best at each step."""
    for step in range(1, 28):
        tune.report(loss=config["x"] + 1 / step)


def steps(result):
    return sum(len(trial.history) for trial in result.trials)


@pytest.mark.parametrize(("pruner", "saved"), [
    (tune.ASHA(max_t=27, reduction_factor=3), 0.6),
    (tune.HyperBand(max_t=27), 0.4),
    (tune.MedianStopping(), 0.4),
    (optuna.pruners.SuccessiveHalvingPruner(), 0.6),
    (optuna.pruners.MedianPruner(n_startup_trials=3), 0.4),
], ids=lambda each: type(each).__name__ if hasattr(each, "__dict__") else None)
@pytest.mark.parametrize("mode", ["min", "max"])
def test_most_steps_are_saved_and_the_best_is_kept(pruner, saved, mode):
    def signed(config):
        for step in range(1, 28):
            tune.report(loss=(config["x"] + 1 / step) * (1 if mode == "min" else -1))

    result = tune.run(signed, SPACE, metric="loss", mode=mode, num_samples=40, pruner=pruner,
                      scheduler="sync", seed=3, verbose=0)
    assert steps(result) < (1 - saved) * 40 * 27
    assert result.best.config["x"] == min(trial.config["x"] for trial in result.trials)
    assert len(result.best.history) == 27
    assert {trial.status for trial in result.trials} <= {"stopped", "completed"}


def test_early_stopping_on_every_scheduler(scheduler):
    result = tune.run(curve, SPACE, metric="loss", num_samples=12, max_concurrent=2, seed=3,
                      pruner=tune.ASHA(max_t=9, reduction_factor=3), verbose=0)
    assert steps(result) < 0.6 * 12 * 9
    assert all(len(trial.history) in (1, 3, 9) for trial in result.trials)
    assert len(result.best.history) == 9


@given(st.lists(st.lists(st.floats(0, 1), min_size=9, max_size=9), min_size=1, max_size=12),
       st.randoms(use_true_random=False))
def test_asha_lets_go_on_what_is_among_the_best_so_far(losses, random):
    """Reports come in any order; a trial goes on if it is in the best third of those before."""
    pruner = tune.ASHA(max_t=9, grace_period=1, reduction_factor=3)
    pruner.start(Space(SPACE), 0)
    at = dict.fromkeys(range(len(losses)), 0)
    seen = {1: [], 3: []}
    while at:
        number = random.choice(sorted(at))
        at[number] = step = at[number] + 1
        loss = losses[number][step - 1]
        decision = pruner.decide(Trial(number, {}), step, loss)
        goes_on = step < 9
        if step in seen:
            seen[step].append(loss)
            goes_on = loss <= sorted(seen[step])[max(1, len(seen[step]) // 3) - 1]
        assert (decision is tune.TrialDecision.CONTINUE) == goes_on
        if not goes_on:
            del at[number]


def population(config):
    """Climbs by its rate in each step; the best rate is 1, and what was climbed is the state."""
    height = tune.load_state(0.0)
    while True:
        height += 1 - abs(config["rate"] - 1)
        tune.report(height=height, state=height)


def climbs(seed):
    space = Space({"rate": tune.uniform(0, 2)})
    return [12 * (1 - abs(space.draw(seed, n)["rate"] - 1)) for n in range(8)]


def test_a_population_goes_on_from_the_states_of_the_best(scheduler):
    # The last trial is the worst by far, so it is replaced however the trials are interleaved.
    seed = next(s for s in range(1000) if climbs(s)[7] < 4 < 6 < min(climbs(s)[:7]))
    result = tune.run(
        population, {"rate": tune.uniform(0, 2)}, metric="height", mode="max", num_samples=8,
        pruner=tune.PBT(interval=2), stop={"step": 12}, max_concurrent=2, seed=seed, verbose=0,
    )
    assert result.trials[7].metrics["height"] > climbs(seed)[7]
    assert [len(trial.history) for trial in result.trials] == [12] * 8
    assert {trial.status for trial in result.trials} == {"stopped"}


def test_a_population_without_states():
    with pytest.raises(ValueError, match="PBT moves the states of trials, and trial 0 has"):
        tune.run(curve, SPACE, metric="loss", pruner=tune.PBT(), scheduler="sync", verbose=0)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: tune.ASHA(max_t=0), "max_t must be a number, 1 or more; got 0"),
    (lambda: tune.ASHA(grace_period=0), "grace_period must be a number, 1 or more; got 0"),
    (lambda: tune.ASHA(reduction_factor=1), "reduction_factor must be a number"),
    (lambda: tune.HyperBand(max_t="9"), "max_t must be a number, 1 or more; got '9'"),
    (lambda: tune.MedianStopping(min_trials=0), "min_trials must be a number"),
    (lambda: tune.PBT(quantile=0.7), "quantile must be a number from 0 to 0.5; got 0.7"),
    (lambda: tune.PBT(interval=0), "interval must be a number"),
])
def test_words_of_errors(make, words):
    with pytest.raises(ValueError, match=words):
        make()


class OnlyTwo(tune.Pruner):
    def decide(self, trial, step, loss):
        return tune.TrialDecision.STOP if step == 2 else tune.TrialDecision.CONTINUE


def test_a_pruner_of_the_users():
    result = tune.run(curve, SPACE, metric="loss", pruner=OnlyTwo(), scheduler="threads", verbose=0)
    assert [len(trial.history) for trial in result.trials] == [2] * 10


def test_a_pruner_without_decisions_says_what_it_needs():
    class Undecided(tune.Pruner):
        pass

    with pytest.raises(NotImplementedError, match=r"^Undecided does not say.* decide\(self, trial"):
        Undecided().decide(None, 1, 0.5)
