"""Weights of real models of TensorFlow, Keras and PyTorch, each where it is installed."""

import importlib
import os
import subprocess
import sys

import numpy as np
import pytest

import lazyflow
from lazyflow.learn import DataParallel
from lazyflow.weights import get_flat, get_weights, mean_weights, set_flat, set_weights

pytestmark = [
    pytest.mark.slow,  # they take seconds to import
    pytest.mark.filterwarnings("ignore"),  # of the frameworks about themselves
]


@pytest.fixture(scope="module")
def tf():
    return pytest.importorskip("tensorflow")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def net(tf):
    class Net(tf.Module):
        def __init__(self, scale):
            self.w = tf.Variable(scale * tf.ones((2, 3)), name="w")
            self.b = tf.Variable(tf.zeros(3, tf.float64), name="b")
            self.half = tf.Variable(tf.ones(2, tf.bfloat16), name="half")
            self.steps = tf.Variable(3, trainable=False, name="steps")

    return Net


def test_a_module_of_tensorflow(net):
    one, other = net(1.0), net(2.0)
    weights = get_weights(one)
    assert [w.dtype.name for w in weights] == [v.dtype.name for v in one.variables]
    weights[0] += 5  # a copy
    before = [v.numpy().tolist() for v in one.variables]
    set_weights(other, get_weights(one))
    assert [v.numpy().tolist() for v in other.variables] == before
    flat = get_flat(one)
    assert len(flat) == 6 + 3 + 2  # without the count of steps
    set_flat(other, flat + 1)
    assert [v.dtype for v in other.variables] == [v.dtype for v in one.variables]
    assert np.array_equal(get_flat(other), flat + 1)
    assert int(other.steps.numpy()) == 3
    mean = mean_weights([get_weights(one), get_weights(other)])
    set_weights(one, mean)
    assert np.array_equal(get_flat(one), flat + 0.5)
    with pytest.raises(ValueError, match=r"weights\[\d\]"):
        set_weights(one, [np.ones(7)] * 4)


def test_a_module_without_variables(tf):
    class Empty(tf.Module):
        pass

    with pytest.raises(ValueError, match="this Empty has no variables yet: call it once"):
        get_weights(Empty())


def test_models_and_optimisers_of_keras(tf):
    keras = pytest.importorskip("keras")

    def built():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
        model.compile("adam", "mse")
        return model

    one, other = built(), built()
    one.fit(np.ones((8, 4)), np.ones((8, 1)), epochs=1, verbose=0)
    set_weights(other, get_weights(one))
    assert np.array_equal(one.predict(np.eye(4), verbose=0), other.predict(np.eye(4), verbose=0))
    other.optimizer.build(other.trainable_variables)
    moments = get_weights(one.optimizer)
    set_weights(other.optimizer, moments)
    assert int(other.optimizer.iterations) == 1
    for model in (one, other):
        model.fit(np.eye(4), np.ones((4, 1)), epochs=2, shuffle=False, verbose=0)
    assert np.allclose(get_flat(one), get_flat(other), atol=0, rtol=0)


def test_modules_of_pytorch_of_any_dtype(torch):
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        one, other = (torch.nn.Linear(3, 2, dtype=dtype) for _ in range(2))
        weights = get_weights(one)
        assert weights["weight"].dtype.name == str(dtype).partition(".")[2]
        set_weights(other, weights)
        assert all(torch.equal(a, b) for a, b in zip(
            one.state_dict().values(), other.state_dict().values(), strict=True))
        set_flat(other, get_flat(one))
        assert np.array_equal(get_flat(one), get_flat(other))
    tied = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    set_flat(tied, get_flat(tied) + 1)
    assert torch.equal(tied[0].weight, tied[1].weight)


def test_optimisers_of_pytorch(torch):
    def trained(steps, optimiser_of, state=None):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimiser = optimiser_of(model.parameters())
        if state is not None:
            set_weights(model, state[0])
            set_weights(optimiser, state[1])
        for _ in range(steps):
            optimiser.zero_grad()
            (model(torch.ones(4, 3)) ** 2).mean().backward()
            optimiser.step()
        return model, optimiser

    for optimiser_of in (
        lambda p: torch.optim.Adam(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
    ):
        model, optimiser = trained(3, optimiser_of)
        kept = get_weights(optimiser)
        assert all(isinstance(each, np.ndarray) for each in kept.values()) and kept
        going_on, _ = trained(2, optimiser_of, (get_weights(model), kept))
        expected, _ = trained(5, optimiser_of)
        assert np.array_equal(get_flat(going_on), get_flat(expected))
        set_weights(optimiser, mean_weights([kept, kept]))
        assert all(np.array_equal(a, kept[n]) for n, a in get_weights(optimiser).items())
    with pytest.raises(ValueError, match=r"a RMSprop of 2 parameters has no state named '7.step'"):
        set_weights(optimiser, {"7.step": np.ones(())})
    with pytest.raises(ValueError, match=r"0.square_avg has shape \(9,\), and that of the optim"):
        set_weights(optimiser, {"0.square_avg": np.ones(9)})
    with pytest.raises(ValueError, match="are a dict by name"):
        set_weights(optimiser, [np.ones(9)])


# -- training -------------------------------------------------------------------------------

SCHEDULERS = ["sync", "threads", "processes", "distributed", "ray"]


@pytest.mark.parametrize("example", ["parameter_averaging", "gradient_averaging"])
@pytest.mark.parametrize("with_actors", [False, True])
@pytest.mark.parametrize("framework", ["tensorflow", "torch", "keras"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_programs_of_the_guide(example, with_actors, framework, scheduler, capsys):
    pytest.importorskip(framework)
    pytest.importorskip({"ray": "ray", "distributed": "distributed"}.get(scheduler, "numpy"))
    program = importlib.import_module(f"lazyflow.learn.examples.{example}")
    outcome = program.main(scheduler, framework, with_actors)
    lazyflow.shutdown()
    assert outcome.reached, capsys.readouterr().out
    assert outcome == pytest.approx((0.1, 0.3), abs=1e-3)


def rows(count):
    X = np.random.default_rng(0).normal(size=(count, 3)).astype("float32")
    return [(X, (X @ [[1.0], [2.0], [-1.0]]).astype("float32"))] * 8


def torch_layers():
    import torch

    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def torch_adam(parameters):
    import torch

    return torch.optim.Adam(parameters, lr=0.05)


def torch_loss(found, y):
    return ((found - y) ** 2).mean()


def test_data_parallel_training_with_pytorch(torch):
    training = DataParallel(
        torch_layers, torch_loss, torch_adam, workers=2, scheduler="processes")
    losses = training.fit(rows(20))
    model, expected = torch_layers(), []
    optimiser = torch_adam(model.parameters())
    for X, y in rows(20):
        optimiser.zero_grad()
        loss = torch_loss(model(torch.as_tensor(X)), torch.as_tensor(y))
        loss.backward()
        optimiser.step()
        expected.append(float(loss.detach()))
    assert losses == pytest.approx(expected, rel=1e-4)
    assert get_flat(training.weights()) == pytest.approx(get_flat(model), rel=1e-3)


def keras_layers():
    import keras

    keras.utils.set_random_seed(3)
    return keras.Sequential([
        keras.Input((3,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])


def keras_adam(parameters):
    import keras

    return keras.optimizers.Adam(0.05)


def keras_loss(y, found):
    import keras

    return keras.ops.mean((found - y) ** 2)


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_data_parallel_training_with_keras(backend):
    pytest.importorskip("keras")
    pytest.importorskip(backend)
    script = f"""
import sys; sys.path[:0] = {sys.path!r}
import keras, numpy as np
from test_weights_of_frameworks import *
if __name__ == "__main__":
    training = DataParallel(keras_layers, keras_loss, keras_adam, workers=2, scheduler="processes")
    losses = training.fit(rows(20))
    model = keras_layers()
    model.compile(keras_adam(None), "mse")
    expected = [float(model.train_on_batch(X, y)) for X, y in rows(20)[:1]]
    assert losses[0] == pytest.approx(expected[0], rel=1e-4), (losses, expected)
    assert losses[-1] < 0.8 * losses[0], losses
    print(keras.backend.backend())
"""
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120,
        env={**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": os.pathsep.join(
            [os.path.dirname(__file__), os.getcwd(), *filter(None, sys.path)])})
    assert out.stdout.split()[-1:] == [backend], out.stderr[-2000:]
