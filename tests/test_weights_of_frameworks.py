"""Weights of real models of TensorFlow, Keras and PyTorch, each where it is installed."""

import numpy as np
import pytest

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
