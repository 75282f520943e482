"""The example programs: same bits on every scheduler, true to their goals, few messages."""

import re
from functools import cache

import numpy as np
import pytest
from engine_schedulers import SCHEDULERS

import lazyflow
from lazyflow import demo
from lazyflow.learn.examples import batched_lbfgs, gradient_averaging, parameter_averaging
from lazyflow.learn.examples.frameworks import FittedLine, LinearModel, batch, print_history
from lazyflow.testing.signals import Tally
from lazyflow.weights import get_weights, mean_gradients, mean_weights, set_weights

AVERAGING = [parameter_averaging, gradient_averaging]


@pytest.fixture(params=SCHEDULERS)
def scheduler(request):
    return request.param


@cache
def plain_loop(module):
    """Do what an averaging example does, without tasks."""
    model = LinearModel()
    steps = parameter_averaging.ROUNDS if module is parameter_averaging else module.STEPS
    for k in range(steps):
        batches = [batch(k, worker) for worker in range(module.WORKERS)]
        if module is gradient_averaging:
            model.apply(mean_gradients([model.gradients(x, y) for x, y in batches]))
            continue
        copies = [LinearModel() for _ in batches]
        for copy, (x, y) in zip(copies, batches, strict=True):
            set_weights(copy, get_weights(model))
            copy.train(x, y, parameter_averaging.STEPS)
        set_weights(model, mean_weights([get_weights(copy) for copy in copies]))
    return [float(value[0]) for value in get_weights(model)]


@pytest.mark.parametrize("module", AVERAGING, ids=lambda m: m.__name__.rpartition(".")[2])
def test_averaging_is_the_plain_loop_to_the_bit(module, scheduler, capsys):
    outcome = module.main(scheduler)
    assert list(outcome) == plain_loop(module)
    assert outcome.reached and outcome.error < 1e-6
    text = capsys.readouterr().out
    assert f"scheduler {scheduler}" in text and text.rstrip().endswith("ok")
    assert len(re.findall(r"^ +\d+ +0\.\d+ +0\.\d+$", text, re.MULTILINE)) == 6


@pytest.mark.parametrize("on", SCHEDULERS)
@pytest.mark.parametrize("module", AVERAGING, ids=lambda m: m.__name__.rpartition(".")[2])
def test_averaging_by_actors_is_the_plain_loop_to_the_bit(module, on, capsys):
    assert list(module.main(on, with_actors=True)) == plain_loop(module)
    assert f"scheduler {on}, actors" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Keras' own, of NumPy 2
@pytest.mark.parametrize("framework", ["torch", "keras"])
def test_parameter_averaging_with_a_framework(scheduler, framework, capsys):
    pytest.importorskip(framework)
    outcome = parameter_averaging.main(scheduler, framework)
    assert outcome.reached
    assert outcome == pytest.approx(tuple(plain_loop(parameter_averaging)), abs=1e-5)
    assert f"{framework}, scheduler {scheduler}" in capsys.readouterr().out


def test_gradient_averaging_with_pytorch(scheduler):
    pytest.importorskip("torch")
    outcome = gradient_averaging.main(scheduler, "torch")
    assert outcome.reached
    assert outcome == pytest.approx(tuple(plain_loop(gradient_averaging)), abs=1e-5)


def test_the_model_does_not_travel():
    with pytest.raises(TypeError, match="get_weights"):
        lazyflow.compute(lazyflow.delayed(LinearModel)(), scheduler="processes")


def test_a_goal_that_is_missed_is_said(capsys):
    weights = [np.array([0.1]), np.array([0.29])]
    outcome = print_history([lazyflow.submit(list, weights)], "round", every=1)
    assert not outcome.reached and outcome == FittedLine(0.1, 0.29)
    assert "up to 1.0e-02; goal <= 0.001  MISSED" in capsys.readouterr().out


def test_lbfgs_on_batches_is_the_serial_one(scheduler, capsys):
    outcome = batched_lbfgs.main(scheduler)
    assert outcome.reached
    assert outcome.apart <= 1e-10 and outcome.one_pass <= 1e-10
    text = capsys.readouterr().out
    assert text.count(" iterations ") == 3 and text.rstrip().endswith("ok")


def test_the_gradient_of_the_batches_is_right(scheduler):
    batches = batched_lbfgs.made_batches(1)
    both = batched_lbfgs.serial_objective(batches)
    theta = np.random.default_rng(0).normal(size=63)
    with lazyflow.config.set(scheduler=scheduler):
        objective = batched_lbfgs.Objective(batches)
        value, gradient = objective.both(theta)
        assert value == objective.full_loss(theta) == both(theta)[0]
        np.testing.assert_array_equal(gradient, objective.full_grad(theta))
    np.testing.assert_array_equal(gradient, both(theta)[1])
    for at in (0, 20, 62):
        step = np.zeros(63)
        step[at] = 1e-6
        slope = (both(theta + step)[0] - both(theta - step)[0]) / 2e-6
        assert abs(slope - gradient[at]) < 1e-8


class CountedBatch(tuple):
    """A batch that counts how often it is pickled."""

    def __reduce_ex__(self, protocol):
        pickled.add(1)
        return tuple, (list(self),)


pickled = None


def test_a_batch_is_pickled_once_however_often_it_is_used():
    global pickled
    pickled = Tally()
    batches = [CountedBatch(b) for b in batched_lbfgs.made_batches()]
    with lazyflow.config.set(scheduler="processes"):
        objective = batched_lbfgs.Objective(batches)
        theta = np.zeros(63)
        objective.both(theta)
        first = len(pickled)
        for _ in range(5):
            objective.both(theta)
    assert len(pickled) == first == len(batches)


@pytest.mark.parametrize("name", demo.EXAMPLES)
def test_the_command_line_runs_them(name, capsys):
    assert demo.main(["--example", name, "--scheduler", "sync"]) == 0
    assert "scheduler sync" in capsys.readouterr().out


def test_the_command_line_says_when_a_goal_is_missed(capsys, monkeypatch):
    monkeypatch.setattr(parameter_averaging, "ROUNDS", 1)
    assert demo.main(["--example", "parameter-averaging", "--scheduler", "sync"]) == 1
    assert "MISSED" in capsys.readouterr().out


def test_an_example_that_is_not_known(capsys):
    with pytest.raises(SystemExit) as ended:
        demo.main(["--example", "hello"])
    assert ended.value.code == 2
    assert "parameter-averaging" in capsys.readouterr().err
