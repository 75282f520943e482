"""What an array is: its attributes, operators, schedulers, and what it shows."""

import warnings

import numpy as np
import pytest
from array_checks import same_values

import lazyflow
import lazyflow.array as la
from lazyflow import config


def test_numbers_truth_length_and_iteration():
    x = la.arange(6, chunks=4).reshape(2, 3)
    assert float(x.sum()) == 15.0
    assert int(x.max()) == 5
    assert bool((x >= 0).all())
    assert [1, 2, 3][la.asarray(1)] == 2
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x)
    assert len(list(x)) == len(x)
    with pytest.raises(TypeError, match="unsized"):
        len(x.sum())
    assert 3 in x
    assert 9 not in x


def test_in_place_operations_change_the_array_and_no_copy():
    a = np.arange(6.0)
    x = la.from_array(a, chunks=4)
    y = x.copy()[1:]
    same = x
    x += 1
    assert same is x
    np.testing.assert_array_equal(x.compute(), a + 1)
    np.testing.assert_array_equal(y.compute(), a[1:])
    out = la.zeros(6)
    np.add(x, 1, out=out)
    np.testing.assert_array_equal(out.compute(), a + 2)
    with pytest.raises(TypeError, match="Cannot cast ufunc output"):
        np.add(x, 1, out=la.zeros(6, dtype=int))


def test_an_array_is_an_input_of_tasks():
    x = la.arange(10, chunks=3)
    assert lazyflow.delayed(np.ptp)(x).compute() == 9
    assert lazyflow.delayed(np.ptp)({"a": x}["a"] + 1).compute(scheduler="processes") == 9


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_schedulers_agree(scheduler):
    a = np.random.default_rng(3).random((50, 40))
    with config.set(scheduler=scheduler):
        x = la.from_array(a, chunks=(20, 15))
        y = ((x - x.mean(0)) / x.std(0)).persist()
        expected = (a - a.mean(0)) / a.std(0)
        np.testing.assert_allclose(y.compute(), expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(y[3:7].sum().compute(), expected[3:7].sum(), rtol=1e-9)


@pytest.mark.parametrize("dtype", ["i8", "f8"])
@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_casts_and_choices_of_fused_tasks_travel(scheduler, dtype):
    a = np.arange(12).astype(dtype)
    x = la.from_array(a, chunks=5)
    cast, chosen = lazyflow.compute(
        x.astype("f4"), la.where(x > 3, x, -x.astype("f4")), scheduler=scheduler
    )
    np.testing.assert_array_equal(cast, a.astype("f4"), strict=True)
    np.testing.assert_array_equal(chosen, np.where(a > 3, a, -a.astype("f4")), strict=True)


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_large_results_are_put_together_in_place(scheduler):
    a = np.arange(300_000.0).reshape(600, 500)
    x = la.from_array(a, chunks=(100, 300))
    one, two = lazyflow.compute(x + 1, x.T, scheduler=scheduler)
    np.testing.assert_array_equal(one, a + 1)
    np.testing.assert_array_equal(two, a.T)
    one[:] = 0  # the caller's own
    np.testing.assert_array_equal((x + 1).compute(scheduler=scheduler), a + 1)


def test_large_results_of_a_trace_are_put_together_in_place():
    a = np.arange(300_000.0).reshape(500, 600)
    x = la.from_array(a, chunks=(100, 300))
    run = lazyflow.trace(lambda k: x + k)
    first, second = run(1), run(2)
    np.testing.assert_array_equal(first, a + 1)
    np.testing.assert_array_equal(second, a + 2)


def test_errstate_and_warnings_are_numpys(noticed):
    x = la.from_array(np.array([0.0, 1.0]), chunks=1)
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal((1 / x).compute(), [np.inf, 1.0])
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide"):
        (1 / x).compute()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        (1 / x).compute()


def test_powers_are_numpys():
    a = np.array([0.1, 2.0, 3.3, 1e200])
    x = la.from_array(a, chunks=2)
    with np.errstate(all="ignore"):
        for power in (2, 0.5, -1, 2.0):
            same_values((x**power).compute(), a**power)
        for power in (3, -2, 1.5):
            np.testing.assert_array_max_ulp((x**power).compute(), a**power, 1)
        np.testing.assert_array_max_ulp((2**x).compute(), 2**a, 1)
    for kind in "biu":
        for size in (1,) if kind == "b" else (1, 2, 4, 8):
            i = np.arange(-3, 200).astype(f"{kind}{size}")
            for power in (0, 1, 2, 3, 4, 5):
                same_values((la.from_array(i, chunks=30) ** power).compute(), i**power)


def test_what_is_shown():
    x = la.ones((3, 4), chunks=2)
    assert repr(x) == "lazyflow.Array<full, shape=(3, 4), dtype=float64, chunksize=(2, 2)>"
    html = x._repr_html_()
    assert "<svg" in html
    assert "(3, 4)" in html


def test_an_array_of_an_array_is_one_of_its_own():
    x = la.from_array(np.arange(4.0), chunks=2)
    copies = [la.array(x), la.array(x, ndmin=1), la.copy(x), x.copy(), x.astype("f8"), x.flatten()]
    x[:] = 9
    assert [y.sum().compute() for y in copies] == [6] * len(copies)
    assert la.asarray(x) is x


def test_one_value_everywhere_is_turned_into_any_type():
    with np.errstate(invalid="ignore"):
        for value, dtype in [(np.nan, "i4"), (1j, "f8"), (2.5, "u1"), (-0.0, ">f4")]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
                found, wanted = [xp.full((2, 3), value, dtype) for xp in (la, np)]
            np.testing.assert_array_equal(found.compute(), wanted, strict=True)
