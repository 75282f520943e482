"""Weights: taken out and put back exactly, flat and averaged, with words for what is wrong."""

import subprocess
import sys
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lazyflow import delayed
from lazyflow.weights import (
    get_flat,
    get_weights,
    mean_gradients,
    mean_weights,
    set_flat,
    set_weights,
)


class FakeTensor:
    """As much of a torch.Tensor as is used."""

    def __init__(self, data):
        self.data = np.array(data)

    def detach(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.data  # shared with the module: who keeps it must copy

    def new_tensor(self, data):
        assert isinstance(data, np.ndarray)
        return FakeTensor(data.astype(self.data.dtype))


class FakeModule:
    """As a torch.nn.Module: two parameters, and two buffers that no optimiser moves."""

    def __init__(self, seed=0):
        random = np.random.default_rng(seed)
        self._parameters = {
            "linear.weight": FakeTensor(random.normal(size=(2, 3)).astype("float32")),
            "linear.bias": FakeTensor(random.normal(size=2).astype("float16")),
        }
        self._buffers = {
            "norm.running_mean": FakeTensor(random.normal(size=2)),
            "norm.num_batches_tracked": FakeTensor(np.int64(5)),
        }

    def named_parameters(self):
        return iter(self._parameters.items())

    def state_dict(self):
        tied = {"head.weight": self._parameters["linear.weight"]}  # a second name, as in PyTorch
        return OrderedDict({**self._parameters, **self._buffers, **tied})

    def load_state_dict(self, state, strict=True):
        own = self.state_dict()
        assert not strict or list(state) == list(own)
        for name, tensor in state.items():
            own[name].data[...] = tensor.data


class FakeKeras:
    """As a keras.Model: a kernel and a bias, and a moving mean that is not trained."""

    def __init__(self, seed=0):
        random = np.random.default_rng(seed)
        self.weights = [
            FakeTensor(random.normal(size=(2, 2)).astype("float32")),
            FakeTensor(random.normal(size=2).astype("float32")),
            FakeTensor(random.normal(size=2).astype("float32")),
        ]
        self.trainable_weights = [self.weights[0], self.weights[2]]

    def get_weights(self):
        return [v.data for v in self.weights]

    def set_weights(self, weights):
        assert isinstance(weights, list)
        for variable, value in zip(self.weights, weights, strict=True):
            variable.data = value


def ridge(seed=0):
    linear = pytest.importorskip("sklearn.linear_model")
    random = np.random.default_rng(seed)
    X = random.normal(size=(30, 4))
    return linear.Ridge().fit(X, X @ [1.0, 2.0, 3.0, 4.0] + random.normal(size=30))


def logistic(seed=0, labels=("cat", "dog", "elephant")):
    linear = pytest.importorskip("sklearn.linear_model")
    random = np.random.default_rng(seed)
    X = random.normal(size=(60, 4))
    return linear.LogisticRegression().fit(X, np.array(labels)[np.arange(60) % len(labels)])


def perceptron(seed=0):
    network = pytest.importorskip("sklearn.neural_network")
    random = np.random.default_rng(seed)
    X = random.normal(size=(60, 4)).astype("float32")
    return network.MLPClassifier((5,)).partial_fit(X, np.arange(60) % 2, classes=[0, 1])


def plain_dict(seed=0):
    random = np.random.default_rng(seed)
    return {
        "w": random.normal(size=(3, 2)),
        "deep": {"b": random.normal(size=2).astype("float32"), "steps": np.array(7)},
    }


def plain_list(seed=0):
    return list(np.random.default_rng(seed).normal(size=(2, 3)))


MODELS = [FakeModule, FakeKeras, ridge, logistic, perceptron, plain_dict, plain_list]


def leaves(weights):
    if isinstance(weights, dict):
        weights = list(weights.values())
    return [x for w in weights for x in leaves(w)] if isinstance(weights, list) else [weights]


def same(one, other):
    pairs = list(zip(leaves(one), leaves(other), strict=True))
    return all(
        type(a) is type(b)
        and np.asarray(a).dtype == np.asarray(b).dtype
        and np.shape(a) == np.shape(b)
        and np.asarray(a).tobytes() == np.asarray(b).tobytes()
        for a, b in pairs
    )


@pytest.mark.parametrize("make", MODELS)
def test_what_is_taken_out_is_put_back_to_the_bit(make):
    one, other = make(0), make(1)
    weights = get_weights(one)
    assert not same(weights, get_weights(other))
    set_weights(other, weights)
    assert same(get_weights(other), weights)


@pytest.mark.parametrize("make", MODELS)
def test_weights_are_copies_both_ways(make):
    model = make()
    taken = get_weights(model)
    kept = get_weights(model)
    for array in leaves(taken):
        if isinstance(array, np.ndarray) and array.dtype.kind == "f":
            array += 1
    assert same(get_weights(model), kept)
    set_weights(model, kept)
    for array in leaves(kept):
        if isinstance(array, np.ndarray) and array.dtype.kind == "f":
            array += 1
    assert not same(get_weights(model), kept)


@pytest.mark.parametrize("make", MODELS)
def test_the_flat_vector_goes_there_and_back_to_the_bit(make):
    model = make()
    before = get_weights(model)
    flat = get_flat(model)
    assert flat.dtype == np.float64 and flat.ndim == 1
    set_flat(model, flat)
    assert same(get_weights(model), before)
    set_flat(model, flat + 1)
    assert not same(get_weights(model), before)
    set_flat(model, flat)
    assert same(get_weights(model), before)


floats = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=0, min_side=0), elements=st.floats(width=64)
)


@given(st.lists(floats, min_size=1, max_size=4))
def test_any_float64_survives_the_flat_vector(arrays):
    model = dict(enumerate(arrays))
    flat = get_flat(model)
    set_flat(model, flat)
    assert [x.tobytes() for x in model.values()] == [x.tobytes() for x in arrays]
    assert get_flat(model).tobytes() == flat.tobytes()


def test_the_flat_vector_has_what_is_trained_and_no_more():
    assert get_flat(FakeModule()).size == 2 * 3 + 2
    assert get_flat(FakeKeras()).size == 2 * 2 + 2
    assert get_flat(plain_dict()).size == 3 * 2 + 2
    assert get_flat(logistic()).size == 3 * 4 + 3
    assert get_flat(perceptron()).size == 4 * 5 + 5 + 5 + 1
    model = FakeKeras()
    kept = model.weights[1].data.copy()
    set_flat(model, np.zeros(6))
    assert not model.weights[0].data.any() and not model.weights[2].data.any()
    np.testing.assert_array_equal(model.weights[1].data, kept)


def test_own_dtypes_are_kept_when_others_are_set():
    model = FakeModule()
    set_flat(model, np.full(8, 0.1))
    weights = get_weights(model)
    assert [str(w.dtype) for w in weights.values()] == [
        "float32", "float16", "float64", "int64", "float32"
    ]
    assert weights["linear.weight"][0, 0] == np.float32(0.1)
    assert weights["norm.num_batches_tracked"] == 5


def test_an_estimator_that_was_never_fitted_predicts_with_the_weights_of_another():
    base = pytest.importorskip("sklearn.base")
    X = np.random.default_rng(3).normal(size=(20, 4))
    for model in (logistic(), ridge()):
        fresh = base.clone(model)
        set_weights(fresh, get_weights(model))
        np.testing.assert_array_equal(fresh.predict(X), model.predict(X))


def test_the_flat_vector_is_what_scipy_optimises():
    from scipy.optimize import fmin_l_bfgs_b

    random = np.random.default_rng(0)
    X = random.normal(size=(50, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.25
    model = {"w": np.zeros(3), "b": np.zeros(1)}

    def loss(flat):
        set_flat(model, flat)
        residual = X @ model["w"] + model["b"] - y
        gradient = {"w": X.T @ residual, "b": residual.sum(keepdims=True)}
        return residual @ residual / 2, get_flat(gradient)

    found, _, _ = fmin_l_bfgs_b(loss, get_flat(model))
    np.testing.assert_allclose(found, [1.0, -2.0, 0.5, 0.25], atol=1e-5)


def test_the_mean_is_the_one_that_people_write():
    several = [plain_dict(k) for k in range(3)]
    mean = mean_weights([get_weights(m) for m in several])
    np.testing.assert_array_equal(mean["w"], sum(m["w"] for m in several) / 3)
    assert mean["deep"]["b"].dtype == "float32"
    assert mean["deep"]["steps"] == 7 and mean["deep"]["steps"].dtype == several[0]["deep"][
        "steps"].dtype


@pytest.mark.parametrize("make", MODELS)
def test_the_mean_of_one_is_itself_and_of_several_fits_the_model(make):
    one, other = make(0), make(1)
    assert same(mean_weights([get_weights(one)]), get_weights(one))
    mean = mean_weights([get_weights(one), get_weights(other)])
    set_weights(one, mean)
    assert same(get_weights(one), mean)


def test_labels_have_no_mean():
    one, other = logistic(), logistic(labels=("cat", "dog", "eel"))
    mean = mean_weights([get_weights(one), get_weights(logistic(1))])
    assert mean["classes_"].tolist() == ["cat", "dog", "elephant"]
    with pytest.raises(ValueError, match=r"classes_.* differs .*'elephant'.*'eel'.*same labels"):
        mean_weights([get_weights(one), get_weights(other)])
    numbers = [get_weights(logistic(labels=labels)) for labels in [(0, 1, 2), (1, 2, 3)]]
    with pytest.raises(ValueError, match=r"classes_.*has no mean"):
        mean_weights(numbers)


def test_gradients_may_be_arrays_tensors_or_absent():
    assert mean_gradients([np.array([1.0, 2.0]), np.array([2.0, 2.0])]).tolist() == [1.5, 2.0]
    mean = mean_gradients([(FakeTensor([1.0]), None), (FakeTensor([4.0]), None)])
    assert mean == (np.array([2.5]), None)
    with pytest.raises(ValueError, match=r"gradients\[1\] is None in entry 1 .*give zeros"):
        mean_gradients([[np.ones(1), np.ones(1)], [np.ones(1), None]])


def unfitted():
    return pytest.importorskip("sklearn.linear_model").Ridge()


def pipeline():
    return pytest.importorskip("sklearn.pipeline").make_pipeline(unfitted())


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: get_weights(3), TypeError, r"can't find the weights of int\. A model is .* dict"),
        (lambda: get_weights(FakeKeras), TypeError, r"the class FakeKeras; make one: FakeKeras\("),
        (lambda: get_weights(unfitted()), ValueError, r"Ridge has no fitted .*model\.fit\(X, y\)"),
        (lambda: get_flat(unfitted()), ValueError, r"model\.fit\(X, y\)"),
        (lambda: get_weights(pipeline()), ValueError, r"get_weights\(model\[-1\]\)"),
        (lambda: get_weights({"a": object()}), ValueError, r"weights\['a'\] is object, not an"),
        (lambda: set_weights(unfitted(), {"alpha": 1.0}), ValueError, r"nothing called 'alpha'"),
        (lambda: set_weights(ridge(), [1]), ValueError, r"a dict by name, not list"),
        (
            lambda: set_weights(ridge(), {"coef_": np.ones(4)}),
            ValueError,
            r"not the same: 'intercept_' missing\. get_weights\(model\) shows",
        ),
        (
            lambda: set_weights({"a": np.ones(2)}, {"b": np.ones(2)}),
            ValueError,
            r"the names in weights are not the same: 'a' missing, 'b' not known",
        ),
        (
            lambda: set_weights(FakeKeras(), [np.ones((2, 2))]),
            ValueError,
            r"weights has 3 arrays in one and 1 in another",
        ),
        (
            lambda: set_weights({"a": np.ones(2)}, {"a": np.ones(3)}),
            ValueError,
            r"weights\['a'\] has shape \(3,\), and the model's has \(2,\)",
        ),
        (lambda: set_weights((np.ones(2),), (np.ones(2),)), TypeError, r"keep the .* in a list"),
        (
            lambda: set_flat({"a": np.ones(2), "b": np.ones((2, 2))}, np.ones(5)),
            ValueError,
            r"shape \(5,\), but the model has 6 numbers: weights\['a'\] \(2,\), .*get_flat\(model",
        ),
        (lambda: set_flat([np.ones(2)], np.ones((2, 1))), ValueError, r"shape \(2, 1\)"),
        (lambda: get_flat({"a": np.ones(2) * 1j}), ValueError, r"complex128, which a float64"),
        (lambda: get_flat([np.arange(3)]), ValueError, r"no arrays of floats"),
        (
            lambda: set_weights({"a": np.zeros(2)}, {"a": np.array([1, 2j])}),
            ValueError,
            r"weights\['a'\] is complex128, and the model's is float64, which can't hold 2j",
        ),
        (
            lambda: set_weights({"a": np.arange(2)}, {"a": np.array([1.0, 2.5])}),
            ValueError,
            r"is float64, and the model's is int64, which can't hold 2\.5",
        ),
        (
            lambda: set_weights({"a": np.arange(2)}, {"a": np.array([np.nan, 1])}),
            ValueError,
            r"can't hold nan",
        ),
        (
            lambda: set_weights({"a": np.zeros(2)}, {"a": np.array(["x", "y"])}),
            ValueError,
            r"is <U1, and the model's is float64, which can't hold 'x'",
        ),
        (lambda: set_flat({"a": np.ones(2)}, ["x", "y"]), ValueError, r"the vector is <U1"),
        (lambda: set_flat({"a": np.ones(2)}, [1j, 2]), ValueError, r"can't hold 1j"),
        (lambda: mean_weights([ridge()]), TypeError, r"\[get_weights\(model\), .*is a Ridge"),
        (lambda: mean_weights([delayed({})]), TypeError, r"lazy values: .*delayed\(mean_weights"),
        (lambda: get_weights(delayed(ridge)()), TypeError, r"model is lazy: compute it"),
        (lambda: set_weights(delayed(ridge)(), {}), TypeError, r"model is lazy: compute it"),
        (lambda: mean_weights([]), ValueError, r"mean_weights got an empty list"),
        (lambda: mean_weights({"a": 1}), TypeError, r"one entry per model, not dict"),
        (lambda: mean_weights(np.ones((2, 2))), TypeError, r"one entry per model, not ndarray"),
        (
            lambda: mean_gradients([np.ones(2), np.ones(3)]),
            ValueError,
            r"gradients has shape \(3,\) in entry 1 and \(2,\) in entry 0",
        ),
        (
            lambda: mean_weights([{"a": np.ones(1)}, {"a": [np.ones(1)]}]),
            ValueError,
            r"weights\['a'\] is an array in one and a list in another",
        ),
    ],
)
def test_what_is_wrong_is_said(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_whole_floats_are_integers_and_digits_may_be_lost():
    model = {"steps": np.array([1, 2]), "w": np.zeros(1, "f4"), "z": np.zeros(1, complex)}
    set_weights(model, {"steps": np.array([3.0, 4.0]), "w": np.array([0.1]), "z": np.array([2])})
    assert model["steps"].tolist() == [3, 4] and model["steps"].dtype == int
    assert model["w"][0] == np.float32(0.1) and model["z"].tolist() == [2]


def test_nothing_is_set_when_something_does_not_fit():
    model = ridge()
    before = get_weights(model)
    with pytest.raises(ValueError):
        set_weights(model, {**before, "coef_": before["coef_"] + 1, "intercept_": np.ones(9)})
    assert same(get_weights(model), before)


def test_no_framework_is_imported():
    code = (
        "import sys, lazyflow; lazyflow.weights.get_weights([]); "
        "print([m for m in ('torch', 'keras', 'tensorflow', 'sklearn') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_pytorch_module():
    torch = pytest.importorskip("torch")

    def make(seed):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        model(torch.randn(8, 3))
        return model

    one, other = make(0), make(1)
    set_weights(other, get_weights(one))
    for name, tensor in one.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor), name
    flat = get_flat(one)
    assert flat.size == sum(p.numel() for p in one.parameters())
    set_flat(one, flat)
    assert get_flat(one).tobytes() == flat.tobytes()
    set_weights(one, mean_weights([get_weights(one), get_weights(other)]))
    one[0].weight = torch.nn.Parameter(torch.zeros(2, 2))
    tied = torch.nn.ModuleList([one[0], one[0]])
    set_flat(tied, np.ones(6))
    assert get_flat(tied).tolist() == [1.0] * 6


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Keras' own, of NumPy 2
def test_a_keras_model():
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    weights = [w + 1 for w in get_weights(model)]
    set_weights(model, weights)
    assert same(get_weights(model), weights)
    flat = get_flat(model)
    set_flat(model, flat)
    assert get_flat(model).tobytes() == flat.tobytes() and flat.size == 8
