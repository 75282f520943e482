"""Models whose state is not arrays alone, labels of objects, and models of other forms."""

import numpy as np
import pytest

from lazyflow.weights import get_flat, get_weights, mean_weights, set_weights

sklearn = pytest.importorskip("sklearn")

from sklearn import ensemble, linear_model, multiclass, neighbors, tree  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)
NAMES = np.array(["no", "yes"], object)[Y]
LINEAR = linear_model.LogisticRegression()


@pytest.mark.parametrize("model", [
    ensemble.RandomForestClassifier(2), ensemble.RandomForestRegressor(2),
    ensemble.GradientBoostingClassifier(n_estimators=2),
    ensemble.HistGradientBoostingClassifier(max_iter=2), ensemble.AdaBoostClassifier(LINEAR),
    ensemble.BaggingClassifier(LINEAR, 2), ensemble.IsolationForest(n_estimators=2),
    ensemble.VotingClassifier([("a", LINEAR)]), ensemble.StackingClassifier([("a", LINEAR)], cv=2),
    tree.DecisionTreeClassifier(), tree.DecisionTreeRegressor(),
    neighbors.KNeighborsClassifier(3), neighbors.KNeighborsRegressor(3),
    multiclass.OneVsRestClassifier(LINEAR), GridSearchCV(LINEAR, {"C": [1.0, 2.0]}, cv=2),
], ids=lambda model: type(model).__name__)
def test_what_is_not_in_arrays_is_refused(model):
    fitted = sklearn.clone(model).fit(X, Y)
    for call in (get_weights, get_flat, lambda m: set_weights(m, {"classes_": np.array([0, 1])})):
        with pytest.raises(ValueError, match=r"no array|no fitted arrays|labels alone"):
            call(fitted)
    with pytest.raises(ValueError, match=r"labels alone"):
        set_weights(sklearn.clone(model), {"classes_": np.array([0, 1])})


class TestLabelsOfObjects:
    @pytest.mark.parametrize("fitted", [True, False])
    def test_a_twin_predicts_those_of_the_weights(self, fitted):
        model = sklearn.clone(LINEAR).fit(X, NAMES)
        twin = sklearn.clone(LINEAR)
        if fitted:
            twin.fit(X, np.array(["b", "a"], object)[Y])
        weights = get_weights(model)
        assert weights["classes_"].tolist() == ["no", "yes"]
        set_weights(twin, weights)
        assert twin.predict(X).tolist() == model.predict(X).tolist()
        assert twin.classes_.dtype == object

    def test_others_have_no_mean(self):
        one, other = (
            get_weights(sklearn.clone(LINEAR).fit(X, np.array(names, object)[Y]))
            for names in (["a", "b"], ["a", "c"])
        )
        with pytest.raises(ValueError, match=r"classes_.*has no mean"):
            mean_weights([one, other])

    def test_texts_of_any_kind_are_not_cut(self):
        twin = sklearn.clone(LINEAR).fit(X, np.array(["a", "b"])[Y])
        set_weights(twin, get_weights(sklearn.clone(LINEAR).fit(X, NAMES)))
        assert set(twin.predict(X)) == {"no", "yes"}

    def test_names_of_columns_are_no_weights(self):
        pandas = pytest.importorskip("pandas")
        model = sklearn.clone(LINEAR).fit(pandas.DataFrame(X, columns=list("abc")), Y)
        assert "feature_names_in_" not in get_weights(model)


def test_a_name_that_only_ends_like_labels_is_averaged():
    trees = [{"classes_head.weight": np.full(2, k)} for k in (1.0, 3.0)]
    assert mean_weights(trees)["classes_head.weight"].tolist() == [2.0, 2.0]


class ByName:
    """A model in the way of Keras whose weights have names."""

    def __init__(self):
        self.own = {"w": np.zeros(2), "b": np.zeros(1)}

    def get_weights(self):
        return self.own

    def set_weights(self, weights):
        self.own = weights


def test_weights_by_name_are_kept_by_name():
    model = ByName()
    set_weights(model, {"w": np.ones(2), "b": np.full(1, 5)})
    assert get_weights(model)["b"].tolist() == [5.0]
    assert get_flat(model).tolist() == [1.0, 1.0, 5.0]
    with pytest.raises(ValueError, match="names in weights are not the same"):
        set_weights(model, {"w": np.ones(2)})


def test_what_can_not_be_changed_is_said_before_anything_is():
    model = {"a": [np.zeros(1)], "b": (np.zeros(1),)}
    with pytest.raises(TypeError, match=r"weights\['b'\] is a tuple"):
        set_weights(model, {"a": [np.ones(1)], "b": (np.ones(1),)})
    assert model["a"][0].tolist() == [0.0]


def test_frozen_parameters_are_not_moved():
    class Parameter(np.ndarray):
        requires_grad = True

        def detach(self):
            return self

        cpu, numpy = detach, lambda self: np.asarray(self)

    class Module:
        def __init__(self):
            self.all = {name: np.full(2, k).view(Parameter) for k, name in enumerate("ab", 1)}
            self.all["a"].requires_grad = False

        def state_dict(self):
            return {name: np.asarray(each, float) for name, each in self.all.items()}

        def load_state_dict(self, state, strict):
            raise NotImplementedError

        def named_parameters(self):
            return self.all.items()

    assert get_flat(Module()).tolist() == [2.0, 2.0]


def test_short_floats_of_other_libraries_are_floats():
    short = pytest.importorskip("ml_dtypes").bfloat16
    model = {"w": np.array([1, 3], short), "b": np.ones(3)}
    assert get_flat(model).tolist() == [1, 3, 1, 1, 1]
    mean = mean_weights([model, {"w": np.array([3, 5], short), "b": np.zeros(3)}])
    assert mean["w"].dtype == short and mean["w"].astype(float).tolist() == [2.0, 4.0]


class WithState:
    """As a PyTorch module whose layer has what `get_extra_state` returns."""

    def __init__(self, state):
        self.state = {"w": np.ones(2), "layer._extra_state": state}

    def state_dict(self):
        return self.state

    def load_state_dict(self, state, strict):
        raise AssertionError("it was not to be changed")


@pytest.mark.parametrize("state", [{"scale": 1.0}, None, b"abc", 3, [1.0, 2.0]])
def test_extra_state_of_a_module_is_refused_by_its_name(state):
    model = WithState(state)
    for call in (get_weights, get_flat, lambda m: set_weights(m, {"w": np.zeros(2)})):
        words = r"layer\._extra_state is a \w+ of the module's get_extra_state"
        with pytest.raises(ValueError, match=words):
            call(model)


class Unbuilt:
    """As a Keras model before it has seen a shape."""

    built = False

    def get_weights(self):
        return []

    def set_weights(self, weights):
        raise ValueError(f"you called set_weights(weights) with a list of {len(weights)} weights")


def test_a_model_that_is_not_built_says_how_it_is():
    for call in (get_weights, get_flat, lambda m: set_weights(m, [np.ones(2)])):
        with pytest.raises(ValueError, match=r"Unbuilt is not built.*model\.build\("):
            call(Unbuilt())
    built = Unbuilt()
    built.built = True
    assert get_weights(built) == []


def test_an_unbuilt_keras_model():
    keras = pytest.importorskip("keras")
    with pytest.raises(ValueError, match=r"Sequential is not built"):
        get_weights(keras.Sequential([keras.layers.Dense(2)]))
