"""What is drawn from a space."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazyflow import tune
from lazyflow.tune.space import Space, leaves_of

LOW, SPAN = st.integers(1, 50), st.integers(2, 200)


def drawn(domain, count=200):
    space = Space({"x": domain})
    return [space.draw(3, n)["x"] for n in range(count)]


@given(LOW, SPAN)
def test_numbers_are_in_their_ranges(low, span):
    high = low + span
    for domain in (tune.uniform(low, high), tune.loguniform(low, high)):
        assert all(type(x) is float and low <= x <= high for x in drawn(domain))
    for domain in (tune.randint(low, high), tune.lograndint(low, high)):
        assert all(type(x) is int and low <= x < high for x in drawn(domain))


@given(LOW, SPAN, st.integers(1, 5))
def test_quantised_numbers_are_steps_from_low(low, span, q):
    high = low + max(span, q)
    for domain in (tune.quniform(low, high, q), tune.qloguniform(low, high, q)):
        assert all(low <= x <= high and (x - low) % q == 0 for x in drawn(domain, 50))
    found = drawn(tune.qrandint(low, high, q), 50)
    assert all(type(x) is int and low <= x <= high and (x - low) % q == 0 for x in found)


def test_all_values_occur_and_about_as_often_as_they_should():
    assert set(drawn(tune.randint(0, 5))) == set(range(5))
    assert set(drawn(tune.qrandint(0, 6, 2))) == {0, 2, 4, 6}
    assert set(drawn(tune.quniform(0, 0.3, 0.1))) == {0.0, 0.1, 0.2, 0.3}
    assert set(drawn(tune.choice(["a", "b", None]))) == {"a", "b", None}
    assert set(drawn(tune.lograndint(1, 5))) == {1, 2, 3, 4}
    logs = np.log10(drawn(tune.loguniform(1e-4, 1e-1), 2000))
    counts, _ = np.histogram(logs, bins=3, range=(-4, -1))
    assert counts.min() > 550
    assert math.isclose(np.mean(drawn(tune.uniform(0, 1), 2000)), 0.5, abs_tol=0.03)


def test_nested_spaces_constants_and_computed_values():
    space = Space({
        "a": {"rate": tune.uniform(0, 1), "layers": [tune.randint(1, 9), (tune.choice("xy"), 7)]},
        "fixed": [1, {"two": 2}, "three"],
        "twice": tune.sample_from(lambda c: 2 * c["a"]["rate"]),
        "again": tune.sample_from(lambda c: c["twice"] + 1),
        3: tune.randint(0, 2),
    })
    config = space.config(0, space.draw(0, 0))
    assert config["fixed"] == [1, {"two": 2}, "three"]
    assert config["twice"] == 2 * config["a"]["rate"]
    assert config["again"] == config["twice"] + 1
    assert type(config["a"]["layers"]) is list and type(config["a"]["layers"][1]) is tuple
    assert config["a"]["layers"][1][1] == 7 and config[3] in (0, 1)
    assert set(leaves_of(config)) >= {"a/rate", "a/layers/0", "a/layers/1/0", "3"}


def test_draws_depend_on_the_seed_and_the_number_alone():
    space = Space({"x": tune.uniform(0, 1), "y": tune.choice("abc")})
    draws = [space.draw(5, n) for n in range(20)]
    assert [space.draw(5, n) for n in reversed(range(20))] == draws[::-1]
    assert len({d["x"] for d in draws}) == 20
    assert space.draw(6, 0) != draws[0]


def test_grids_are_combined_and_repeated():
    space = Space({
        "a": tune.grid_search([1, 2]), "b": {"c": tune.grid_search("xyz")}, "d": tune.uniform(0, 1),
    })
    assert space.combinations == 6
    found = [(c["a"], c["b"]["c"]) for c in (space.config(n, {"d": 0}) for n in range(12))]
    assert found[:6] == [(a, b) for a in (1, 2) for b in "xyz"] and found[6:] == found[:6]


@pytest.mark.parametrize(("make", "kind", "words"), [
    (lambda: tune.uniform(1, 1), ValueError, r"uniform\(1, 1\): low must be less than high"),
    (lambda: tune.loguniform(0, 1), ValueError, r"low must be more than 0.*take uniform"),
    (lambda: tune.lograndint(0, 9), ValueError, r"take randint"),
    (lambda: tune.uniform("a", 1), TypeError, r"bounds must be numbers; got 'a'"),
    (lambda: tune.uniform(0, math.inf), ValueError, r"bounds must be finite"),
    (lambda: tune.randint(0.5, 3), ValueError, r"whole numbers; or write uniform"),
    (lambda: tune.quniform(0, 1, 0), ValueError, r"q must be more than 0"),
    (lambda: tune.quniform(0, 1, 2), ValueError, r"no more than high - low"),
    (lambda: tune.choice([]), ValueError, r"choice needs a value at least; got \[\]"),
    (lambda: tune.grid_search([]), ValueError, r"grid_search needs a value"),
    (lambda: tune.sample_from(3), TypeError, r"takes a function of the configuration; got 3"),
    (lambda: Space({}), ValueError, r"the space is empty"),
    (lambda: Space([1]), TypeError, r"must be a dict of parameters.*got \[1\]"),
])
def test_words_of_errors(make, kind, words):
    with pytest.raises(kind, match=words):
        make()
