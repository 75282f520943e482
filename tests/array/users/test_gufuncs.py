"""`apply_gufunc`, `gufunc` and `as_gufunc`."""

import numpy as np
import pytest
from array_checks import check
from array_examples import Calls

import lazyflow.array as la

SCHEDULERS = ["sync", "threads", "processes"]


def test_apply_gufunc_works_on_core_dimensions():
    a, b = np.random.default_rng(0).random((4, 3, 5)), np.random.default_rng(1).random((5, 2))
    x, y = la.from_array(a, chunks=(2, 3, 5)), la.from_array(b, chunks=-1)
    check(la.apply_gufunc(np.matmul, "(i,j),(j,k)->(i,k)", x, y), a @ b)
    check(la.apply_gufunc(np.matmul, "(i,j),(j,k)->(i,k)", x, b, output_dtypes=float), a @ b)
    mean = lambda u: u.mean(-1)  # noqa: E731
    check(la.apply_gufunc(mean, "(i)->()", x), a.mean(-1))
    check(la.apply_gufunc(mean, "(i)->()", x, axis=1), np.moveaxis(a, 1, -1).mean(-1))
    kept = la.apply_gufunc(mean, "(i)->()", x, axis=0, keepdims=True, allow_rechunk=True)
    check(kept, np.moveaxis(np.moveaxis(a, 0, -1).mean(-1)[..., None], -1, 0))
    flipped = la.apply_gufunc(
        lambda u: u[..., ::-1], "(i)->(i)", x, axis=0, allow_rechunk=True
    )
    check(flipped, a[::-1])
    check(
        la.apply_gufunc(lambda u: u[..., :2], "(i)->(n)", x, output_sizes={"n": 2},
                        axes=[2, 0]),
        np.moveaxis(a[..., :2], -1, 0),
    )
    shorter = la.apply_gufunc(np.diff, "(i)->(i)", x, axis=1, output_sizes={"i": a.shape[1] - 1},
                              allow_rechunk=True)
    check(shorter, np.diff(a, axis=1))
    check(
        la.apply_gufunc(np.cross, "(3),(3)->(3)", la.ones((4, 3), chunks=(2, 3)), [1.0, 2.0, 3.0]),
        np.cross(np.ones((4, 3)), [1.0, 2.0, 3.0]),
    )


def test_apply_gufunc_broadcasts_loops_and_makes_chunks_fit():
    a, b = np.arange(24).reshape(4, 3, 2), np.arange(6).reshape(3, 2)
    x, y = la.from_array(a, chunks=(3, 2, 2)), la.from_array(b, chunks=(1, 2))
    check(la.apply_gufunc(np.vecdot, "(i),(i)->()", x, y), np.vecdot(a, b))
    check(la.apply_gufunc(np.add, "(),()->()", x, y), a + b)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_apply_gufunc_of_several_results(scheduler):
    values = np.arange(12).reshape(3, 4)
    x = la.from_array(values, chunks=(2, 4))
    both = lambda u: (u.mean(-1), u[..., :2])  # noqa: E731
    for said in ({}, {"output_dtypes": [float, int]}, {"meta": (np.ones(0), np.ones(0, int))}):
        mean, head = la.apply_gufunc(both, "(i)->(),(n)", x, output_sizes={"n": 2}, **said)
        check(mean, values.mean(-1), scheduler)
        check(head, values[:, :2], scheduler)


def test_several_results_are_made_by_one_call(here):
    calls = Calls()

    def both(block):
        calls(block)
        return block + 1, block + 2

    x = la.arange(4, chunks=2)
    one, two = la.apply_gufunc(both, "()->(),()", x, output_dtypes=[int, int])
    check_both = (one + two).compute()
    np.testing.assert_array_equal(check_both, 2 * np.arange(4) + 3)
    assert len(calls.shapes) == 2


@pytest.mark.parametrize("arguments, options, words", [
    (("(i)->(", la.ones(3)), {}, r"Not a valid gufunc signature: '\(i\)->\('"),
    (("(i),(i)->()", la.ones(3)), {}, r"requires 2 arguments, but 1 are given"),
    (("(i),(i)->()", la.ones(3), la.ones(4)), {}, r"`'i'` with different lengths in arrays: 3 and"),
    (("(i)->()", la.ones(4, chunks=2)), {}, r"consists of multiple chunks. To fix, rechunk into"),
    (("(i)->(n)", la.ones(3)), {}, r"`'n'` of a result is in no input; give its length by output_"),
    (("(i,j)->()", la.ones(3)), {}, r"has 1 axes, fewer than its core dimensions \(i,j\)"),
    (("(i)->()", la.ones(3)), {"axis": 0, "axes": [0]}, r"Only one of `axis` or `axes`"),
    (("(i)->()", la.ones(3)), {"axes": [(0, 1), ()]}, r"does not fit the core dimensions \(i\)"),
    (("(i)->(i)", la.ones(3)), {"keepdims": True}, r"`keepdims` needs inputs with equal"),
    (("(i)->()", la.ones(3)), {"output_dtypes": [int, int]}, r"output_dtypes must have 1 "),
    (("(2)->()", la.ones(3)), {}, r"core dimension 2 must have length 2, but an array has 3"),
])
def test_gufuncs_that_can_not_be_are_refused(arguments, options, words):
    with pytest.raises(ValueError, match=words):
        la.apply_gufunc(np.sum, *arguments, **options)


def test_results_that_are_not_as_the_signature_says(here):
    x = la.ones((2, 3), chunks=(1, 3))
    same = lambda u: u  # noqa: E731
    found = la.apply_gufunc(same, "(i)->()", x, output_dtypes=float)
    with pytest.raises(ValueError, match=r"shape \(1, 3\) for block \(0,\), but \(1,\) was exp.*by "
                                         r"the signature and output_sizes= of apply_gufunc"):
        found.compute()
    found, _ = la.apply_gufunc(same, "(i)->(),()", x, output_dtypes=[float, float])
    with pytest.raises(ValueError, match=r"returned a ndarray for block \(0,\), but the signature "
                                         r"says a tuple of 2"):
        found.compute()
    found = la.apply_gufunc(lambda u: u.sum(-1), "(i)->()", x, output_dtypes=int)
    with pytest.raises(TypeError, match=r"Pass output_dtypes='float64' to apply_gufunc\(\)"):
        found.compute()


def test_gufuncs_as_objects():
    values = np.arange(6.0).reshape(2, 3)
    x = la.from_array(values, chunks=(1, 3))
    length = la.gufunc(np.linalg.norm, signature="(i)->()", vectorize=True, output_dtypes=float)
    check(length(x), np.sqrt((values**2).sum(1)))

    @la.as_gufunc("(i)->()", output_dtypes=float, allow_rechunk=True)
    def middle(u):
        """Half the way."""
        return (u.min(-1) + u.max(-1)) / 2

    assert middle.__doc__ == "Half the way."
    check(middle(x.rechunk(1)), [1.0, 4.0])
    with pytest.raises(ValueError, match="multiple chunks"):
        middle(x.rechunk(1), allow_rechunk=False)
    with pytest.raises(TypeError, match="needs signature="):
        la.gufunc(np.sum)
