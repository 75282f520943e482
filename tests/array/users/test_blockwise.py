"""`blockwise`: blocks go together by labels of axes."""

import operator

import numpy as np
import pytest
from array_checks import check

import lazyflow.array as la


def test_blockwise_puts_blocks_together_by_labels():
    a, b = np.arange(12.0).reshape(3, 4), np.arange(4.0)
    x, y = la.from_array(a, chunks=(2, 3)), la.from_array(b, chunks=2)
    check(la.blockwise(operator.add, "ij", x, "ij", y, "j"), a + b)  # chunks are made to fit
    check(la.blockwise(np.transpose, "ji", x, "ij", dtype=float), a.T)
    check(la.blockwise(lambda u, v: u + v.T, "ij", x, "ij", x.T, "ji"), a + a)
    check(la.blockwise(np.multiply.outer, "kij", y, "k", x, "ij"), np.multiply.outer(b, a))
    check(la.blockwise(operator.add, (1, 0), x, (1, 0), 10, None, dtype=float), a + 10)
    check(la.blockwise(operator.add, "ij", x, "ij", a[:1], "ij"), a + a[:1])


def test_blockwise_contracts_labels_that_the_result_does_not_have(here):
    a, b = np.arange(12.0).reshape(3, 4), np.arange(20.0).reshape(4, 5)
    x, y = la.from_array(a, chunks=(2, 3)), la.from_array(b, chunks=(3, 2))

    def dot(us, vs):
        assert isinstance(us, list) and isinstance(vs, list)
        return sum(u @ v for u, v in zip(us, vs, strict=True))

    check(la.blockwise(dot, "ik", x, "ij", y, "jk"), a @ b)
    check(la.blockwise(operator.matmul, "ik", x, "ij", y, "jk", concatenate=True), a @ b)
    check(la.blockwise(lambda u: u.sum(), "", x, "ij", concatenate=True, dtype=float), a.sum())
    shapes = []

    def nested(lists):
        shapes.append([[block.shape for block in row] for row in lists])
        return sum(block.sum() for row in lists for block in row)

    check(la.blockwise(nested, (), x, "ij", dtype=float), a.sum())
    assert shapes == [[[(2, 3), (2, 1)], [(1, 3), (1, 1)]]] * 2


def test_blockwise_new_axes_and_adjusted_chunks():
    a = np.arange(5)
    x = la.from_array(a, chunks=2)
    wide = lambda b: b[:, None] * np.ones((1, 3), int)  # noqa: E731
    check(la.blockwise(wide, "az", x, "a", new_axes={"z": 3}), a[:, None] * np.ones((1, 3), int))
    found = la.blockwise(wide, "az", x, "a", new_axes={"z": (3, 3)}, dtype=int)
    check(found, a[:, None] * np.ones((1, 6), int))
    twice = lambda b: np.concatenate([b, b])  # noqa: E731
    found = la.blockwise(twice, "i", x, "i", adjust_chunks={"i": lambda n: 2 * n})
    assert found.chunks == ((4, 4, 2),)
    check(found, [0, 1, 0, 1, 2, 3, 2, 3, 4, 4])
    check(la.blockwise(lambda b: b[:1], "i", x, "i", adjust_chunks={"i": 1}), [0, 2, 4])
    check(la.blockwise(lambda b: b[:1], "i", x, "i", adjust_chunks={"i": (1, 1, 1)}), [0, 2, 4])


@pytest.mark.parametrize("call, words", [
    (lambda f, x: la.blockwise(f, "i", x), r"takes arrays, each followed by the labels"),
    (lambda f, x: la.blockwise(f, "ij", x, "ij"),
     r"Index string ij does not match array dimension 1"),
    (lambda f, x: la.blockwise(f, "ij", x, "i"), r"axis 'j' is in no array; give its length by"),
    (lambda f, x: la.blockwise(f, "ii", x, "i"), r"Repeated elements not allowed in output"),
    (lambda f, x: la.blockwise(f, "i", x, "i", new_axes={"i": 2}), r"which an array has already"),
    (lambda f, x: la.blockwise(f, "i", x, "i", adjust_chunks={"j": 2}), r"adjust_chunks has 'j'"),
    (lambda f, x: la.blockwise(f, "i", x, "i", x[:3], "i"), r"Shapes do not align \{'i': \{3, 6\}"),
    (lambda f, x: la.blockwise(f, "i", x, "i", x.rechunk(3), "i", align_arrays=False),
     r"blocks do not fit"),
])
def test_labels_that_do_not_fit_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call(operator.add, la.arange(6, chunks=2))


def test_blockwise_of_unknown_lengths():
    x = la.arange(10, chunks=4)
    odd = x.map_blocks(lambda b: b[b % 2 == 1], chunks=(None,), dtype=int)
    check_values = la.blockwise(operator.add, "i", odd, "i", odd, "i", dtype=int)
    np.testing.assert_array_equal(check_values.compute(), [2, 6, 10, 14, 18])
    other = la.arange(5, chunks=5)
    found = la.blockwise(operator.add, "i", odd, "i", other, "i", dtype=int)  # computes lengths
    check(found, [1, 4, 7, 10, 13])
