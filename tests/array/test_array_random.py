"""Random arrays: values depend on seed and shape, on nothing else; distributions are NumPy's."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la
from lazyflow import config, delayed
from lazyflow.array.random.generator import boxes

SCALAR = {
    "random": {},
    "standard_normal": {},
    "normal": {"loc": 3.0, "scale": 2.0},
    "uniform": {"low": -1.0, "high": 4.0},
    "standard_exponential": {},
    "exponential": {"scale": 2.5},
    "standard_gamma": {"shape": 2.0},
    "gamma": {"shape": 3.0, "scale": 0.5},
    "beta": {"a": 2.0, "b": 5.0},
    "binomial": {"n": 40, "p": 0.3},
    "negative_binomial": {"n": 5, "p": 0.4},
    "geometric": {"p": 0.2},
    "hypergeometric": {"ngood": 30, "nbad": 20, "nsample": 10},
    "poisson": {"lam": 7.0},
    "logseries": {"p": 0.6},
    "zipf": {"a": 6.0},
    "chisquare": {"df": 4.0},
    "noncentral_chisquare": {"df": 4.0, "nonc": 2.0},
    "f": {"dfnum": 5.0, "dfden": 20.0},
    "noncentral_f": {"dfnum": 5.0, "dfden": 20.0, "nonc": 1.0},
    "standard_t": {"df": 12.0},
    "lognormal": {"mean": 0.5, "sigma": 0.4},
    "laplace": {"loc": 1.0, "scale": 2.0},
    "logistic": {"loc": 1.0, "scale": 2.0},
    "gumbel": {"loc": 1.0, "scale": 2.0},
    "rayleigh": {"scale": 2.0},
    "weibull": {"a": 1.5},
    "pareto": {"a": 8.0},
    "power": {"a": 3.0},
    "wald": {"mean": 2.0, "scale": 3.0},
    "triangular": {"left": -1.0, "mode": 0.0, "right": 3.0},
    "vonmises": {"mu": 0.5, "kappa": 2.0},
    "integers": {"low": -3, "high": 12},
}
ROWS = {
    "multinomial": {"n": 20, "pvals": [0.2, 0.5, 0.3]},
    "dirichlet": {"alpha": [1.0, 2.0, 3.0]},
    "multivariate_hypergeometric": {"colors": [5, 10, 15], "nsample": 8},
    "multivariate_normal": {"mean": [1.0, -2.0], "cov": [[2.0, 0.6], [0.6, 1.0]]},
}


def values(x):
    return x.compute()


@pytest.mark.parametrize("name", [*SCALAR, "standard_cauchy"])
def test_values_do_not_depend_on_chunks(name):
    one, many, other = [
        getattr(la.random.default_rng(5), name)(
            **SCALAR.get(name, {}), size=(170, 130), chunks=chunks
        )
        for chunks in (-1, (33, 50), ((1, 100, 69), (129, 1)))
    ]
    expected = values(one)
    np.testing.assert_array_equal(values(many), expected)
    np.testing.assert_array_equal(values(other), expected)
    assert expected.dtype == one.dtype and expected.shape == one.shape


@pytest.mark.parametrize("name", ROWS)
def test_rows_do_not_depend_on_chunks(name):
    width = 2 if name == "multivariate_normal" else 3
    one, many = [
        getattr(la.random.default_rng(5), name)(**ROWS[name], size=5000, chunks=chunks)
        for chunks in (-1, (1234, 1))
    ]
    expected = values(one)
    assert expected.shape == (5000, width)
    np.testing.assert_array_equal(values(many), expected)


@pytest.mark.parametrize("name", [*SCALAR, *ROWS])
def test_distributions_are_those_of_numpy(name):
    given = {**SCALAR, **ROWS}[name]
    n = 60_000
    mine = values(getattr(la.random.default_rng(11), name)(**given, size=n, chunks=7_000))
    theirs = getattr(np.random.default_rng(12), name)(**given, size=n)
    assert mine.dtype == theirs.dtype
    deviation = theirs.std(axis=0)
    # six standard errors of a difference of means; seeds are fixed, so it passes or it does not
    assert (abs(mine.mean(axis=0) - theirs.mean(axis=0)) < 6 * deviation * (2 / n) ** 0.5).all()
    np.testing.assert_allclose(mine.std(axis=0), deviation, rtol=0.12)
    for q in (0.05, 0.5, 0.95):
        difference = abs(np.quantile(mine, q, axis=0) - np.quantile(theirs, q, axis=0))
        assert (difference <= np.maximum(0.06 * deviation, mine.dtype.kind == "i")).all()
    if mine.ndim == 2:
        np.testing.assert_allclose(np.cov(mine.T), np.cov(theirs.T), atol=0.1)


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_values_do_not_depend_on_the_scheduler(scheduler):
    def drawn(rng, **chunks):
        return [
            rng.normal(np.arange(90.0), size=(400, 90), **chunks),
            rng.choice(np.array(["a", "b", "c"]), 1000, p=[0.2, 0.3, 0.5], **chunks),
            rng.choice(500, 300, replace=False, **chunks),
            rng.permutation(100, **chunks),
        ]

    mine = drawn(la.random.default_rng(3), chunks=60)
    for x, whole in zip(mine, drawn(la.random.default_rng(3)), strict=True):
        np.testing.assert_array_equal(x.compute(scheduler=scheduler), values(whole))


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_part_in_any_chunks_is_a_part_of_the_whole(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 150), min_size=1, max_size=3)))
    whole = values(la.random.default_rng(1).beta(0.7, 2.0, size=shape, chunks=-1))
    chunks = tuple(
        data.draw(st.integers(max(n // 5, 1), max(n, 1))) if n else 0 for n in shape
    )
    x = la.random.default_rng(1).beta(0.7, 2.0, size=shape, chunks=chunks)
    key = tuple(
        slice(
            data.draw(st.integers(0, n)), data.draw(st.integers(0, n)),
            data.draw(st.sampled_from([1, 2, -1, -3])),
        )
        for n in shape
    )
    np.testing.assert_array_equal(values(x[key]), whole[key])


@given(st.lists(st.integers(0, 10**6), max_size=5))
def test_boxes_are_neither_small_nor_large(shape):
    sides = boxes(tuple(shape))
    size = np.prod(sides, dtype=object) if shape else 1
    assert all(1 <= side <= max(n, 1) for side, n in zip(sides, shape, strict=True))
    assert size <= 2**13
    assert size >= min(np.prod([max(n, 1) for n in shape], dtype=object), 2**10)


def test_numbers_of_neighbouring_boxes_and_calls_differ():
    rng = la.random.default_rng(1)
    x, y = values(rng.random(40_000)), values(rng.random(40_000))
    assert len(np.unique(np.concatenate([x, y]))) == 80_000


def test_the_same_seed_gives_the_same_sequence_of_calls():
    def draws(seed):
        rng = la.random.default_rng(seed)
        return [values(x) for x in (rng.random(5), rng.integers(9, size=5), rng.random(5))]

    for seed in (7, [1, 2], np.random.SeedSequence(4)):
        for one, other in zip(draws(seed), draws(seed), strict=True):
            np.testing.assert_array_equal(one, other)
    first, _, third = draws(7)
    assert (first != third).all() and (first != draws(8)[0]).all()


def test_no_seed_is_fresh_entropy():
    one, other = la.random.default_rng(), la.random.default_rng()
    assert (values(one.random(4)) != values(other.random(4))).all()


def test_generators_of_numpy_give_a_seed_and_ours_are_returned():
    for make in (np.random.default_rng, np.random.RandomState, np.random.PCG64):
        one, other = [
            values(of(make(3)).random(4)) for of in (la.random.default_rng, la.random.Generator)
        ]
        np.testing.assert_array_equal(one, other)
    fresh = la.random.Generator(np.random.PCG64)
    assert (values(fresh.random(4)) != values(la.random.Generator(np.random.PCG64).random(4))).all()
    theirs = np.random.default_rng(3)
    one, other = [values(la.random.default_rng(theirs).random(4)) for _ in range(2)]
    assert (one != other).all()
    mine = la.random.default_rng(3)
    assert la.random.default_rng(mine) is mine


def test_spawned_and_pickled_generators():
    rng = la.random.default_rng(3)
    rng.random(2)
    copy = pickle.loads(pickle.dumps(rng))
    expected = values(rng.random(4))
    np.testing.assert_array_equal(values(copy.random(4)), expected)
    drawn = [expected, *[values(child.random(4)) for child in rng.spawn(2)]]
    assert len(np.unique(np.concatenate(drawn))) == 12


@pytest.mark.parametrize("use", [
    lambda r: (r - r.mean(0)).std(0),
    lambda r: (r + 1).sum() + (r * 2).max(),
    lambda r: (r[1:] - r[:-1]).sum(),
    lambda r: r[3:].sum(0) + np.cumsum(r, 0)[-1],
    lambda r: r.mean(),
])
def test_what_is_slow_to_draw_is_drawn_once(use, monkeypatch):
    drawn = []

    class Counted(np.random.Generator):
        def beta(self, *args, **kwargs):
            drawn.append(kwargs["size"])
            return super().beta(*args, **kwargs)

    r = la.random.default_rng(0).beta(0.5, 2.0, size=(128, 300), chunks=(64, 128))
    expected = use(r.compute())
    monkeypatch.setattr(np.random, "Generator", Counted)
    with config.set(scheduler="threads"):  # workers have a module of their own
        np.testing.assert_allclose(values(use(r)), expected, rtol=1e-12)
    assert np.prod(drawn, axis=1).sum() <= 1.2 * r.size


def test_an_array_used_twice_has_the_same_values():
    x = la.random.default_rng(3).normal(size=1000, chunks=100)
    assert values((x - x).sum()) == 0
    a, b = [la.random.default_rng(3).normal(size=1000, chunks=100) for _ in range(2)]
    assert a.expr.params() == b.expr.params()
    p, q = [la.random.default_rng(3).poisson([1.0, 2.0], chunks=1) for _ in range(2)]
    assert p.expr.params() == q.expr.params() and hash(p.expr.formula) == hash(q.expr.formula)
    assert q.expr.params() != la.random.default_rng(3).poisson([1.0, 3.0], chunks=1).expr.params()


def test_parameters_broadcast():
    loc = np.array([[0.0], [1000.0], [-1000.0]])
    scale = np.array([1.0, 2.0])
    x = la.random.default_rng(2).normal(loc, scale, size=(500, 3, 2), chunks=(60, 2, 1))
    found = values(x)
    np.testing.assert_allclose(found.mean(0), np.broadcast_to(loc, (3, 2)), atol=0.5)
    np.testing.assert_allclose(found.std(0), np.broadcast_to([1.0, 2.0], (3, 2)), rtol=0.15)
    assert la.random.default_rng(2).normal(loc, scale).shape == (3, 2)
    big = np.arange(30_000.0)
    found = values(la.random.default_rng(2).normal(big, 1e-9, chunks=7_000))
    np.testing.assert_allclose(found, big, atol=1e-6)


def test_a_parameter_that_is_changed_afterwards_is_not_seen():
    loc = np.zeros(10)
    x = la.random.default_rng(2).normal(loc, 1e-9)
    loc[:] = 5
    assert values(abs(x).max()) < 1


def test_shapes_and_types():
    rng = la.random.default_rng(0)
    assert rng.normal().shape == () and isinstance(values(rng.normal()), np.float64)
    assert rng.random(5).shape == (5,) and rng.random((2, 0)).shape == (2, 0)
    assert values(rng.random((2, 0))).shape == (2, 0)
    assert rng.random(5, dtype="f4").dtype == np.float32
    assert values(rng.standard_gamma(2.0, 5, np.float32)).dtype == np.float32
    for dtype in (np.uint8, np.int16, np.int64, bool):
        x = rng.integers(0, 2, 20_000, dtype, chunks=3_000)
        assert x.dtype == dtype and values(x).dtype == dtype
        assert set(np.unique(values(x))) == {0, 1}
    assert set(np.unique(values(rng.integers(3, size=500, endpoint=True)))) == {0, 1, 2, 3}
    assert set(np.unique(values(rng.integers(3, size=500)))) == {0, 1, 2}


def test_choice():
    rng = la.random.default_rng(0)
    found = values(rng.choice(5, 30_000, p=[0, 0.5, 0.2, 0.3, 0], chunks=4_000))
    np.testing.assert_allclose(np.bincount(found, minlength=5) / 30_000, [0, 0.5, 0.2, 0.3, 0],
                               atol=0.02)
    assert found.dtype == np.int64
    chances = np.array([0.3, 0.7])
    one, other = [
        la.random.default_rng(4).choice(2, 90, p=p) for p in (chances, la.asarray(chances))
    ]
    np.testing.assert_array_equal(values(one), values(other))
    many = np.linspace(0, 1, 1000) / np.linspace(0, 1, 1000).sum()
    for kw in ({}, {"p": many}):
        names = np.array([f"{k}-" for k in range(1000)], object)
        one, other = [la.random.default_rng(4).choice(a, 9_000, chunks=800, **kw)
                      for a in (1000, names)]
        np.testing.assert_array_equal(names[values(one)], values(other))
    assert abs(values(one).mean() - 666) < 10  # of the larger ones more
    words = values(rng.choice(["a", "bc"], (3, 4)))
    assert words.dtype == "<U2" and words.shape == (3, 4)
    sample = values(rng.choice(1000, 200, replace=False, chunks=30))
    assert len(set(sample)) == 200 and sample.max() < 1000
    assert values(rng.choice(5)).shape == ()


def test_permutation():
    found = values(la.random.default_rng(0).permutation(100, chunks=30))
    assert (found != np.arange(100)).any()
    np.testing.assert_array_equal(np.sort(found), np.arange(100))


def test_permutation_and_shuffle_of_arrays():
    a = np.arange(60).reshape(20, 3)
    x = la.from_array(a, chunks=(6, 2))
    found = values(la.random.default_rng(0).permutation(x))
    np.testing.assert_array_equal(found[np.argsort(found[:, 0])], a)
    assert (found != a).any()
    la.random.default_rng(0).shuffle(x)
    np.testing.assert_array_equal(values(x), found)
    found = values(la.random.default_rng(0).permuted(la.from_array(a, chunks=7)))
    assert found.shape == (20, 3)
    np.testing.assert_array_equal(np.sort(found.ravel()), np.arange(60))


@pytest.mark.parametrize(("name", "params"), [
    ("normal", lambda u: (u, u + 1)), ("gamma", lambda u: (u + 0.2, 3.0)),
    ("poisson", lambda u: (9 * u,)), ("integers", lambda u: (0, (9 * u).astype(int) + 1)),
    ("wald", lambda u: (u + 1, 2)), ("uniform", lambda u: (-u, 0)),
    ("geometric", lambda u: (u / 2 + 0.3,)), ("vonmises", lambda u: (1.0, u)),
    ("power", lambda u: (u + 1,)), ("hypergeometric", lambda u: ((9 * u).astype(int) + 9, 5, 4)),
])
def test_parameters_that_are_chunked(name, params):
    given = params(np.random.default_rng(1).random((300, 70)))
    x = [la.from_array(p, chunks=(70, 70)) if isinstance(p, np.ndarray) else p for p in given]
    y = [p.rechunk((201, 33)) if isinstance(p, la.Array) else p for p in x]
    drawn, other, memory = [
        getattr(la.random.default_rng(3), name)(*each, **kw)
        for each, kw in ((x, {}), (y, {"chunks": 110}), (given, {}))
    ]
    assert drawn.chunks == next(p for p in x if isinstance(p, la.Array)).chunks
    assert drawn.dtype == memory.dtype
    np.testing.assert_array_equal(values(drawn), values(other))
    np.testing.assert_array_equal(values(drawn), values(memory))


def test_parameters_that_are_chunked_broadcast():
    rng, x = la.random.default_rng(0), la.arange(1000.0, 1004, chunks=3)
    for draw in (rng.normal, rng.poisson):
        found = values(draw(x[:, None] * 100, size=(2, 4, 3)))
        np.testing.assert_allclose(found, np.broadcast_to(x[:, None] * 100, (2, 4, 3)), rtol=0.02)
    assert values(rng.normal(x[:0])).shape == (0,)
    assert rng.normal(x[x > 1001]).shape == (2,)


@pytest.mark.parametrize(("name", "params"), [
    ("normal", (0, -la.ones(3))), ("triangular", (la.ones(3), 0, 2)), ("poisson", (-la.ones(3),)),
    ("uniform", (la.ones(3), 0)), ("exponential", (la.asarray([1.0, np.nan, -1.0]),)),
])
def test_parameters_that_are_chunked_are_checked_when_computed(name, params):
    x = getattr(la.random.default_rng(0), name)(*params)
    with pytest.raises(ValueError, match=r"< 0|left > mode"):
        x.compute()


def test_chunks_of_rows_are_those_of_their_size():
    def draw(size, chunks):
        return la.random.default_rng(1).multinomial(20, [0.2, 0.5, 0.3], size, chunks=chunks)

    assert draw((5, 4), (2, 3)).chunks == draw((5, 4), (2, 3, -1)).chunks == (
        (2, 2, 1), (3, 1), (3,)
    )
    np.testing.assert_array_equal(values(draw((5, 4), (2, 3))), values(draw((5, 4), -1)))


@pytest.mark.parametrize("options", [{}, {"replace": False}, {"p": np.arange(20) / 190}])
def test_choice_of_chunked_arrays(options):
    a = np.arange(60).reshape(20, 3)
    x = la.from_array(a, chunks=(6, 2))
    found = la.random.default_rng(0).choice(x, 9, **options)
    np.testing.assert_array_equal(values(found) // 3, values(found)[:, :1] // 3 + [0, 0, 0])
    if not options.get("replace", True):
        assert len(set(values(found)[:, 0])) == 9
    across = la.random.default_rng(0).choice(x.T.rechunk(4), (3, 3), axis=1, **options)
    assert across.shape == (3, 3, 3)
    np.testing.assert_array_equal(values(across).reshape(3, 9), values(found).T)
    in_memory = la.random.default_rng(0).choice(a, 9, **options, chunks=2)
    np.testing.assert_array_equal(values(in_memory), values(found))
    assert in_memory.chunks == ((2, 2, 2, 2, 1), (2, 1))


def test_rows_in_orders_of_their_own():
    a = np.arange(60).reshape(20, 3)
    found, other = [
        values(la.random.default_rng(0).permuted(la.from_array(a, chunks=chunks), axis=0))
        for chunks in ((6, 2), (20, 1))
    ]
    np.testing.assert_array_equal(found, other)
    np.testing.assert_array_equal(np.sort(found, axis=0), a)
    assert (found[:, 0] != found[:, 1] - 1).any()


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda rng: rng.normal(0, -1, 5), ValueError, "scale < 0"),
    (lambda rng: rng.normal(0, [1, -1]), ValueError, "scale < 0"),
    (lambda rng: rng.integers(5, 3, size=5), ValueError, "low >= high"),
    (lambda rng: rng.integers(300, size=5, dtype="u1"), ValueError, "high is out of bounds"),
    (lambda rng: rng.random(-1), ValueError, "negative dimensions are not allowed"),
    (lambda rng: rng.normal([1, 2, 3], size=2), ValueError,
     r"Output size \(2,\) is not compatible with broadcast dimensions of inputs \(3,\)"),
    (lambda rng: rng.choice(3, 5, replace=False), ValueError,
     "Cannot take a larger sample than population"),
    (lambda rng: rng.choice(3, 5, p=[0.5, 0.5]), ValueError, "a and p must have same size"),
    (lambda rng: rng.choice(3, 5, p=[0.5, 0.5, 0.5]), ValueError,
     "[Pp]robabilities do not sum to 1"),
    (lambda rng: rng.choice(0, 5), ValueError, "a must be a positive integer"),
    (lambda rng: rng.multinomial(3, [0.7, 0.7, 0.1], 2), ValueError, r"sum\(pvals"),
    (lambda rng: rng.normal(delayed(abs)(3), 1), TypeError, "takes no lazy Delayed here"),
    (lambda rng: rng.normal(la.ones(3), -1), ValueError, "scale < 0"),
    (lambda rng: rng.shuffle(np.ones(3)), TypeError, "got a ndarray. Use np.random"),
    (lambda rng: rng.random(5, chunks=(2, 2)), ValueError, "chunks"),
    (lambda rng: la.random.nomal(3), AttributeError, "normal"),
])
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call(la.random.default_rng(0))


def test_module_functions_and_random_state():
    la.random.seed(4)
    one = [values(la.random.random(5)), values(la.random.normal(size=(2, 3)))]
    la.random.seed(4)
    other = [values(la.random.random(5)), values(la.random.normal(size=(2, 3)))]
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
    state = la.random.RandomState(4)
    np.testing.assert_array_equal(values(state.random_sample(5)), one[0])
    assert state.rand(2, 3, chunks=1).chunks == ((1, 1), (1, 1, 1))
    assert state.randn(4).shape == (4,) and state.randint(3, size=4).dtype == int
    assert "normal" in dir(la.random) and "random" in dir(la)


def test_random_loads_when_it_is_used():
    import subprocess
    import sys

    code = (
        "import sys, lazyflow.array as la; a = 'lazyflow.array.random' in sys.modules; "
        "la.random.random(3); print(a, 'lazyflow.array.random' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False True"
