"""Draws by place: Philox's known answers, the same bits by kernels and NumPy, distributions."""

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import lazyflow.array as la
from lazyflow import config
from lazyflow.array.kernels.draws.draw import PlacedDraw
from lazyflow.array.kernels.draws.formulas import philox, schedule

#: Those that are functions of an element's place, and the distributions of SciPy that they are.
FLOATS = {
    "random": ({}, stats.uniform()),
    "uniform": ({"low": -1.0, "high": 4.0}, stats.uniform(-1, 5)),
    "standard_normal": ({}, stats.norm()),
    "normal": ({"loc": 3.0, "scale": 2.0}, stats.norm(3, 2)),
    "standard_exponential": ({}, stats.expon()),
    "exponential": ({"scale": 2.5}, stats.expon(0, 2.5)),
    "laplace": ({"loc": 1.0, "scale": 2.0}, stats.laplace(1, 2)),
    "logistic": ({"loc": 1.0, "scale": 2.0}, stats.logistic(1, 2)),
    "gumbel": ({"loc": 1.0, "scale": 2.0}, stats.gumbel_r(1, 2)),
    "standard_cauchy": ({}, stats.cauchy()),
    "triangular": ({"left": -1.0, "mode": 0.0, "right": 3.0}, stats.triang(0.25, -1, 4)),
    "lognormal": ({"mean": 0.5, "sigma": 0.4}, stats.lognorm(0.4, 0, np.exp(0.5))),
    "rayleigh": ({"scale": 2.0}, stats.rayleigh(0, 2)),
    "weibull": ({"a": 1.5}, stats.weibull_min(1.5)),
    "pareto": ({"a": 8.0}, stats.lomax(8)),
    "power": ({"a": 3.0}, stats.powerlaw(3)),
    "gamma": ({"shape": 2.5, "scale": 3.0}, stats.gamma(2.5, 0, 3)),
    "standard_gamma": ({"shape": 0.3}, stats.gamma(0.3)),
    "chisquare": ({"df": 70.0}, stats.chi2(70)),
    "wald": ({"mean": 2.0, "scale": 3.0}, stats.invgauss(2 / 3, 0, 3)),
    "beta": ({"a": 1.5, "b": 0.3}, stats.beta(1.5, 0.3)),
    "standard_t": ({"df": 2.5}, stats.t(2.5)),
}
COUNTS = [
    ("poisson", (3.0,), stats.poisson(3)),
    ("poisson", (2500.0,), stats.poisson(2500)),
    ("binomial", (10, 0.3), stats.binom(10, 0.3)),
    ("binomial", (10**9, 1 - 1e-8), stats.binom(10**9, 1 - 1e-8)),
    ("negative_binomial", (2.5, 0.1), stats.nbinom(2.5, 0.1)),
    ("hypergeometric", (30, 20, 25), stats.hypergeom(50, 30, 25)),
    ("hypergeometric", (3, 40, 41), stats.hypergeom(43, 3, 41)),
]
WHOLE = {
    "few": {"low": -3, "high": 12},
    "a power of two": {"low": 0, "high": 256, "dtype": "u1"},
    "many": {"low": 0, "high": 2**24 - 1},
    "refused often": {"low": -5, "high": 3 * 2**61, "dtype": "i8"},
    "all": {"low": 0, "high": 2**64, "dtype": "u8"},
    "bool": {"low": 0, "high": 2, "dtype": bool},
}
CALLS = [(name, given) for name, (given, _) in FLOATS.items()] + [
    ("integers", given) for given in WHOLE.values()
] + [(name, {"dtype": "f4"}) for name in ("random", "standard_normal", "standard_exponential")] + [
    ("geometric", {"p": 0.2}), ("poisson", {"lam": 400.0}), ("choice", {"a": 2, "p": [0.5, 0.5]}),
    ("choice", {"a": 1001, "p": [2e-7] * 1000 + [1 - 2e-4]}),  # long searches
]


class Plain:
    """Arithmetic on Python's own whole numbers, for Philox's published answers."""

    def __init__(self, key):
        self.keys = schedule(key)

    def param(self, number):
        return self.keys[number]


@pytest.mark.parametrize(("counter", "key", "answer"), [
    ((0,) * 4, (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
])
def test_philox_gives_the_published_answers(counter, key, answer):
    assert tuple(x % 2**32 for x in philox(Plain(key), counter)) == answer


@pytest.mark.parametrize(("name", "given"), CALLS)
def test_numpy_gives_the_bits_of_kernels(name, given):
    def drawn(kernels):
        with config.set(kernels=kernels):
            x = getattr(la.random.default_rng(5), name)(**given, size=(31, 1501), chunks=(20, -1))
            return x.compute(), x[3:30:2, 5:-7].compute()

    for one, other in zip(drawn("native"), drawn("numpy"), strict=True):
        assert one.dtype == other.dtype and one.tobytes() == other.tobytes()


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_part_in_any_chunks_is_a_part_of_the_whole(data):
    name, options = data.draw(st.sampled_from(CALLS))
    shape: tuple[int, ...] = ()
    for _ in range(data.draw(st.integers(0, 4))):  # chunks of one element are as many tasks
        most = min(60, 20_000 // max(prod(shape), 1))
        shape = (*shape, data.draw(st.integers(0, most)))
    rng = la.random.default_rng(data.draw(st.integers(0, 3)))
    whole = getattr(la.random.Generator(*rng.__reduce__()[1]), name)(**options, size=shape)
    chunks = tuple(data.draw(st.integers(1, max(n, 1))) for n in shape)
    x = getattr(rng, name)(**options, size=shape, chunks=chunks)
    key = tuple(
        slice(data.draw(st.integers(0, n)), data.draw(st.integers(0, n)),
              data.draw(st.sampled_from([1, 2, -1, -3])))
        for n in shape
    )
    expected = np.asarray(whole.compute())
    np.testing.assert_array_equal(x.compute(), expected)
    np.testing.assert_array_equal(x[key].compute(), expected[key])


@pytest.mark.parametrize("name", FLOATS)
def test_floats_have_their_distribution(name):
    given, distribution = FLOATS[name]
    x = getattr(la.random.default_rng(31), name)(**given, size=200_000, chunks=70_000).compute()
    assert stats.kstest(x, distribution.cdf).pvalue > 1e-3
    for half in (x[::2], x[1::2]):  # the two of one counter
        assert stats.kstest(half, distribution.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", ["random", "standard_normal", "standard_exponential"])
def test_single_precision_has_the_distribution(name):
    x = getattr(la.random.default_rng(31), name)(200_000, "f4").compute()
    assert x.dtype == np.float32
    assert stats.kstest(x.astype(float), FLOATS[name][1].cdf).pvalue > 1e-3
    if name == "random":
        assert (x >= 0).all() and (x < 1).all()


@pytest.mark.parametrize("bound", [2, 7, 1000, 65537])
@pytest.mark.parametrize("offset", [0, 2**31, 2**62])
def test_whole_numbers_are_all_as_frequent(bound, offset):
    rng = la.random.default_rng(8)
    x = rng.integers(offset, offset + bound, 400_000, chunks=90_000).compute() - offset
    assert x.min() == 0 and x.max() == bound - 1
    seen = np.bincount(x * min(bound, 500) // bound)
    wanted = np.bincount(np.arange(bound) * min(bound, 500) // bound) * (len(x) / bound)
    assert stats.chisquare(seen, wanted).pvalue > 1e-3


def test_refused_numbers_leave_no_bias():
    # a quarter of the products is refused; kept, some numbers would be half as likely again
    count = 3 * 2**61
    x = la.random.default_rng(9).integers(0, count, 300_000).compute()
    assert stats.chisquare(np.bincount(x % 3)).pvalue > 1e-3
    assert stats.chisquare(np.bincount(x // (count // 60))).pvalue > 1e-3


def test_trials_until_a_success():
    x = la.random.default_rng(4).geometric(0.3, 200_000).compute()
    seen = np.bincount(np.minimum(x, 20))[1:]
    wanted = np.append(stats.geom(0.3).pmf(np.arange(1, 20)), stats.geom(0.3).sf(19)) * len(x)
    assert stats.chisquare(seen, wanted).pvalue > 1e-3
    rng = la.random.default_rng(4)
    assert (rng.geometric(1.0, 100).compute() == 1).all()
    assert (rng.geometric([1e-300], 9).compute() > 2**62).all()


@pytest.mark.parametrize(("name", "params", "law"), COUNTS)
def test_counts_have_their_distribution(name, params, law):
    x = getattr(la.random.default_rng(4), name)(*params, 300_000, chunks=90_000).compute()
    edges = np.unique(law.ppf(np.linspace(0.001, 0.999, 200)))
    chances = np.diff(law.cdf(edges), prepend=0, append=1)
    seen = np.bincount(edges.searchsorted(x), minlength=len(chances))
    some = chances > 1e-9
    assert stats.chisquare(seen[some], chances[some] * len(x)).pvalue > 1e-3
    assert law.pmf(x).all()  # none that is impossible


def test_counts_that_are_certain_and_parameters_beyond_tables():
    rng = la.random.default_rng(4)

    def drawn(name, *params):
        return np.unique(getattr(rng, name)(*params, 500).compute()).tolist()

    assert drawn("poisson", 0.0) == drawn("binomial", 0, 0.5) == drawn("binomial", 9, 0.0) == [0]
    assert drawn("binomial", 9, 1.0) == drawn("hypergeometric", 9, 0, 9) == [9]
    assert drawn("hypergeometric", 0, 9, 9) == drawn("negative_binomial", 3, 1.0) == [0]
    for law, (name, *params) in {
        stats.poisson(1e9): ("poisson", 1e9), stats.nbinom(2, 1e-6): ("negative_binomial", 2, 1e-6),
        stats.poisson(5): ("poisson", [5.0] * 500),
    }.items():
        x = getattr(rng, name)(*params, size=500).compute()
        assert stats.kstest(x, law.cdf).pvalue > 1e-3 or name == "poisson"
        assert abs(x.mean() - law.mean()) < 5 * law.std() / len(x) ** 0.5


@pytest.mark.parametrize("shape", [0.03, 0.99, 1.0, 1e5])
def test_gamma_draws_of_all_shapes(shape):
    for draw in (la.random.default_rng(5).gamma, la.random.default_rng(6).standard_gamma):
        x = draw(shape, size=100_000).compute()
        assert stats.kstest(x, stats.gamma(shape).cdf).pvalue > 1e-3
    single = la.random.default_rng(6).standard_gamma(shape, 1000, np.float32)
    assert single.dtype == single.compute().dtype == np.float32
    np.testing.assert_allclose(single.compute(), x[:1000].astype("f4"), rtol=1e-6, atol=1e-45)


def _far(one, other):
    """Return how many standard errors a correlation is from 0."""
    return abs(np.corrcoef(one, other)[0, 1]) * len(one) ** 0.5


@pytest.mark.parametrize("name", ["random", "standard_normal", "standard_exponential", "laplace"])
def test_neighbours_calls_and_seeds_are_independent(name):
    n = 100_000
    rng = la.random.default_rng(0)
    x, y = (getattr(rng, name)(size=n).compute() for _ in range(2))
    others = [
        getattr(la.random.default_rng(seed), name)(size=n).compute() for seed in (1, 2, [0, 0, 1])
    ]
    children = [getattr(child, name)(size=n).compute() for child in rng.spawn(2)]
    for lag in (1, 2, 3, 4, 16, 1000):
        assert _far(x[lag:], x[:-lag]) < 4.5
        assert _far(x[lag:] ** 2, x[:-lag] ** 2) < 4.5
    for other in (y, *others, *children):
        assert not (x == other).any()
        assert _far(x, other) < 4.5 and _far(abs(x), abs(other)) < 4.5


def test_normals_of_one_counter_are_independent():
    x = la.random.default_rng(2).standard_normal((200_000, 2)).compute()
    angle = np.arctan2(x[:, 1], x[:, 0]) / (2 * np.pi) + 0.5
    assert stats.kstest(angle, "uniform").pvalue > 1e-3
    assert stats.kstest(np.exp(-(x**2).sum(1) / 2), "uniform").pvalue > 1e-3
    rows = np.histogram2d(*stats.norm.cdf(x.T), bins=20, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(rows.ravel()).pvalue > 1e-3


def test_tails():
    x = la.random.default_rng(6).standard_normal(4_000_000, chunks=500_000)
    z = abs(x).compute()
    for bound in (3, 4, 4.75):
        wanted = 2 * stats.norm.sf(bound) * len(z)
        assert abs((z > bound).sum() - wanted) < 5 * wanted**0.5
    waited = la.random.default_rng(6).standard_exponential(1_000_000).compute()
    assert waited.min() > 0 and 10 < waited.max() < 25


def test_a_shape_of_zeros_and_none():
    rng = la.random.default_rng(0)
    assert rng.normal(0.0, 0.0, (3, 0, 2)).compute().shape == (3, 0, 2)
    assert (rng.normal(2.0, 0.0, 5).compute() == 2).all()
    assert isinstance(rng.standard_cauchy().compute(), np.float64)
    assert rng.weibull([0.0, 1.0], (50, 2)).compute()[:, 0].max() == 0


USES = {
    "mean": lambda x, y: x.mean(),
    "columns": lambda x, y: (x * 2).sum(0),
    "rows": lambda x, y: np.exp(-x * x).max(1),
    "moments": lambda x, y: (x - y).std(0),
    "elements": lambda x, y: x * y + 1,
    "parts": lambda x, y: (x[3:, 5:] - y[:-3, :-5]).sum(1),
    "counted": lambda x, y: la.mean(x, where=y > 0.5),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("name", "given"), [
    ("standard_normal", {}), ("random", {"dtype": "f4"}), ("integers", {"low": 3 * 2**61}),
])
def test_kernels_make_draws_as_they_go(use, name, given, monkeypatch):
    def found(kernels):
        x, y = (
            getattr(la.random.default_rng(seed), name)(**given, size=(203, 301), chunks=(150, 301))
            for seed in (1, 2)
        )
        with config.set(kernels=kernels), np.errstate(all="ignore"):
            return USES[use](x, y).compute()

    expected = found("numpy")
    found("native")  # kernels are compiled, and compared with what NumPy draws
    monkeypatch.setattr(PlacedDraw, "__call__", None)
    np.testing.assert_array_equal(found("native"), expected, strict=True)


def test_values_are_those_of_the_formulas_within_few_units():
    def drawn(name, **given):
        return getattr(la.random.default_rng(7), name)(size=200_000, **given).compute()

    words = drawn("integers", low=0, high=2**64, dtype="u8")  # the same counters
    chance = ((words >> 11) | 1).astype(np.longdouble) / 2**53

    def off(found, exact):
        return (abs(found - exact) / np.spacing(abs(found))).max()

    assert off(drawn("standard_exponential"), -np.log(chance)) < 1
    radius = np.sqrt(-2 * np.log(chance[::2]))
    angle = words[1::2]
    eighth = ((angle << 2) | 2).view("i8").astype(np.longdouble) / np.longdouble(2)**64
    sine, cosine = (f(eighth * np.arctan(np.longdouble(1)) * 2) for f in (np.sin, np.cos))
    cosine = np.where(angle >> 63, -cosine, cosine)
    swap = (angle >> 62 & 1).astype(bool)
    found = drawn("standard_normal")
    assert off(found[::2], radius * np.where(swap, sine, cosine)) < 4
    assert off(found[1::2], radius * np.where(swap, cosine, sine)) < 4
