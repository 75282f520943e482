"""Methods of arrays, called by position and by keyword as those of NumPy's arrays."""

import numpy as np
import pytest
from array_checks import check_all, check_near

import lazyflow.array as la
from lazyflow.array.core import Array

A = np.array([[3, 0, 2], [1, 5, 4], [7, 6, 0]])
M = np.array([True, False, True])

#: By name: calls of `x`, and of `o`, which makes an array of zeros for ``out=``.
CALLS = {
    "all": [lambda x, o: x.all(0), lambda x, o: x.all(axis=1, keepdims=True, where=M),
            lambda x, o: x.all(axis=0, out=o(3, "?"))],
    "any": [lambda x, o: x.any(0), lambda x, o: x.any(axis=1, keepdims=True, where=M),
            lambda x, o: x.any(axis=0, out=o(3, "?"))],
    "argmax": [lambda x, o: x.argmax(), lambda x, o: x.argmax(0, o(3)),
               lambda x, o: x.argmax(axis=1, out=o((3, 1)), keepdims=True)],
    "argmin": [lambda x, o: x.argmin(), lambda x, o: x.argmin(0, o(3)),
               lambda x, o: x.argmin(axis=1, out=o((3, 1)), keepdims=True)],
    "argsort": [lambda x, o: x.argsort(), lambda x, o: x.argsort(0, "stable", None),
                lambda x, o: x.argsort(axis=0, kind="stable"),
                lambda x, o: x.argsort(axis=None, stable=True)],
    "astype": [lambda x, o: x.astype("f4"), lambda x, o: x.astype("i1", "K", "unsafe", True, True),
               lambda x, o: x.astype(dtype="f8", casting="safe", copy=False, order="C")],
    "choose": [lambda x, o: (x % 2).choose([x, 9]), lambda x, o: x.choose([5, 9], mode="clip"),
               lambda x, o: x.choose([[5, 6, 7], [9, 9, 9]], mode="wrap", out=o((3, 3)))],
    "clip": [lambda x, o: x.clip(1), lambda x, o: x.clip(1, 3, o((3, 3))),
             lambda x, o: x.clip(None, 3), lambda x, o: x.clip(max=3),
             lambda x, o: x.clip(min=1, max=3, out=o((3, 3)))],
    "compress": [lambda x, o: x.compress(M), lambda x, o: x.compress([1, 0, 1], 1),
                 lambda x, o: x.compress(M, 0, o((2, 3))), lambda x, o: x[0].compress(x[0] > 1),
                 lambda x, o: x.compress(axis=1, condition=M, out=o((3, 2)))],
    "conj": [lambda x, o: x.conj(), lambda x, o: (x * 1j).conj(o((3, 3), "c16"))],
    "conjugate": [lambda x, o: (x * 1j).conjugate(), lambda x, o: x.conjugate(o((3, 3)))],
    "copy": [lambda x, o: x.copy(), lambda x, o: x.copy("C"), lambda x, o: x.copy(order="K")],
    "cumprod": [lambda x, o: x.cumprod(), lambda x, o: x.cumprod(0, "f4"),
                lambda x, o: x.cumprod(0, None, o((3, 3))),
                lambda x, o: x.cumprod(axis=1, dtype="f8", out=o((3, 3), "f8"))],
    "cumsum": [lambda x, o: x.cumsum(), lambda x, o: x.cumsum(0, "f4"),
               lambda x, o: x.cumsum(0, None, o((3, 3))),
               lambda x, o: x.cumsum(axis=1, dtype="f8", out=o((3, 3), "f8"))],
    "diagonal": [lambda x, o: x.diagonal(), lambda x, o: x.diagonal(-1, 1, 0),
                 lambda x, o: x.diagonal(offset=1, axis1=1, axis2=0)],
    "dot": [lambda x, o: x.dot(x), lambda x, o: x.dot(x, o((3, 3))),
            lambda x, o: x.dot(b=2, out=o((3, 3)))],
    "flatten": [lambda x, o: x.flatten(), lambda x, o: x.flatten("F"),
                lambda x, o: x.T.flatten(order="A")],
    "item": [lambda x, o: x.item(4), lambda x, o: x.item(1, 2), lambda x, o: x.item((2, 0))],
    "max": [lambda x, o: x.max(), lambda x, o: x.max(0, o(3)), lambda x, o: x.max(0, None, True, 4),
            lambda x, o: x.max(0, None, False, -9, M),
            lambda x, o: x.max(axis=1, out=o((3, 1)), keepdims=True, initial=3, where=M)],
    "min": [lambda x, o: x.min(), lambda x, o: x.min(0, o(3)), lambda x, o: x.min(0, None, True, 4),
            lambda x, o: x.min(0, None, False, 9, M),
            lambda x, o: x.min(axis=1, out=o((3, 1)), keepdims=True, initial=3, where=M)],
    "mean": [lambda x, o: x.mean(), lambda x, o: x.mean(0, None, o(3, "f8")),
             lambda x, o: x.mean(0, "f4", None, True),
             lambda x, o: x.mean(axis=1, dtype="f8", keepdims=True, where=M)],
    "nonzero": [lambda x, o: x.nonzero()],
    "prod": [lambda x, o: x.prod(), lambda x, o: x.prod(0, "f4"),
             lambda x, o: x.prod(0, None, o((1, 3)), True, 2, M),
             lambda x, o: x.prod(axis=1, initial=2, where=M)],
    "ravel": [lambda x, o: x.ravel(), lambda x, o: x.T.ravel("K"), lambda x, o: x.ravel(order="F")],
    "repeat": [lambda x, o: x.repeat(2), lambda x, o: x.repeat(2, 0),
               lambda x, o: x.repeat(repeats=[1, 2, 0], axis=1)],
    "reshape": [lambda x, o: x.reshape(9), lambda x, o: x.reshape(1, -1),
                lambda x, o: x.reshape((9, 1), order="F"), lambda x, o: x.reshape([1, 9]),
                lambda x, o: x.T.reshape(9, order="A", copy=None)],
    "round": [lambda x, o: (x / 3).round(), lambda x, o: (x / 3).round(1, o((3, 3), "f8")),
              lambda x, o: (x / 3).round(decimals=2, out=o((3, 3), "f8"))],
    "searchsorted": [lambda x, o: x.cumsum().searchsorted([3, 5], "right"),
                     lambda x, o: x[0].searchsorted([1, 2], "left", [1, 2, 0]),
                     lambda x, o: x[0].searchsorted(v=2, side="right", sorter=[1, 2, 0])],
    "squeeze": [lambda x, o: x[None].squeeze(), lambda x, o: x[None].squeeze(0),
                lambda x, o: x[None].squeeze(axis=(0,))],
    "std": [lambda x, o: x.std(), lambda x, o: x.std(0, None, o(3, "f8"), 1),
            lambda x, o: x.std(0, None, None, 1, True),
            lambda x, o: x.std(axis=1, dtype="f8", ddof=0.5, keepdims=True)],
    "var": [lambda x, o: x.var(), lambda x, o: x.var(0, None, o(3, "f8"), 1),
            lambda x, o: x.var(0, None, None, 1, True),
            lambda x, o: x.var(axis=1, dtype="f8", ddof=0.5, keepdims=True)],
    "sum": [lambda x, o: x.sum(), lambda x, o: x.sum(0, "f4"),
            lambda x, o: x.sum(0, None, o((1, 3)), True, 2, M),
            lambda x, o: x.sum(axis=1, initial=2, where=M)],
    "swapaxes": [lambda x, o: x.swapaxes(0, 1)],
    "take": [lambda x, o: x.take([0, 4]), lambda x, o: x.take([0, 2], 0, o((2, 3))),
             lambda x, o: x.take([0, 5], 1, None, "wrap"), lambda x, o: x.take(1, 0),
             lambda x, o: x.take(indices=[0, 5], axis=0, mode="clip")],
    "to_device": [lambda x, o: x.to_device("cpu")],
    "tolist": [lambda x, o: x.tolist()],
    "trace": [lambda x, o: x.trace(), lambda x, o: x.trace(0, 1, 0, "f4"),
              lambda x, o: x.trace(0, 0, 1, None, o(())),
              lambda x, o: x.trace(offset=1, axis1=1, axis2=0, dtype="f8", out=o((), "f8"))],
    "transpose": [lambda x, o: x.transpose(), lambda x, o: x.transpose(None),
                  lambda x, o: x.transpose(1, 0), lambda x, o: x.transpose([0, 1])],
    "view": [lambda x, o: x.view("u8"), lambda x, o: x.view(dtype="i4")],
}


def test_all_methods_of_numpys_are_tried():
    public = {name for name in dir(np.ndarray) if not name.startswith("_")}
    shared = {name for name in public if callable(getattr(np.ndarray, name))}
    assert shared & {*dir(Array)} == {*CALLS}


@pytest.mark.parametrize("name", CALLS)
def test_methods_take_their_arguments_as_numpys(name):
    x = la.from_array(A, chunks=2)
    for call in CALLS[name]:
        expected = call(A, lambda shape, dtype=int: np.zeros(shape, dtype))
        found = call(x, lambda shape, dtype=int: la.zeros(shape, dtype))
        if name in ("item", "tolist"):
            assert found == expected
        elif name in ("mean", "std", "var"):
            check_near(found, expected)
        else:
            check_all(found, expected)
