"""The Array API standard: names, parameters, dtypes and values, against array_api_strict."""

import inspect
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import lazyflow.array as la

strict = pytest.importorskip("array_api_strict")

DTYPES = [np.dtype(code) for code in "?bhilBHILfdFD"]

#: Of the functions of the standard, without those that set the strictness.
NAMES = [
    name for name in strict.__all__
    if inspect.isfunction(getattr(strict, name)) and not name.endswith("_flags")
]

#: With parameters of other names, by position: NumPy's.
OF_NUMPY = {"clip"}

_KINDS = inspect.Parameter
ELEMENTWISE = {
    name: count for name in NAMES
    if (count := {("x",): 1, ("x1", "x2"): 2}.get(tuple(inspect.signature(
        getattr(strict, name)).parameters))) and name not in ("matmul", "matrix_transpose")
    and name not in ("from_dlpack", "nonzero") and not name.startswith("unique")
}


@pytest.mark.parametrize("name", NAMES)
def test_every_function_takes_what_the_standard_passes(name):
    wanted = inspect.signature(getattr(strict, name)).parameters.values()
    found = inspect.signature(getattr(la, name)).parameters
    by_place = [x for x in found.values() if x.kind is not _KINDS.KEYWORD_ONLY]
    for place, x in enumerate(wanted):
        if x.kind in (_KINDS.POSITIONAL_ONLY, _KINDS.POSITIONAL_OR_KEYWORD):
            assert by_place[place].kind is not _KINDS.VAR_POSITIONAL
        if x.kind in (_KINDS.KEYWORD_ONLY, _KINDS.POSITIONAL_OR_KEYWORD):
            assert found[x.name].kind is not _KINDS.POSITIONAL_ONLY
            if x.kind is _KINDS.POSITIONAL_OR_KEYWORD and name not in OF_NUMPY:
                assert by_place[place].name == x.name or x.default is not _KINDS.empty


def test_names_of_types_numbers_and_arrays():
    for name in {*strict.__all__} - {"__version__"}:
        found = getattr(strict, name)
        assert hasattr(la, name) or inspect.isclass(found) or "_flags" in name
    shown = {name for name in dir(type(strict.ones(1))) if name.endswith("__") or name[0] != "_"}
    assert {name for name in shown if not hasattr(la.Array, name)} <= {"__buffer__"}


def _values(dtype, seed):
    values = np.random.default_rng(seed).integers(0 if dtype.kind in "bu" else -3, 4, 5)
    if dtype.kind == "c":
        values = values + 1j
    return (values > 1 if dtype.kind == "b" else values).astype(dtype)


def _agree(name, *given):
    """Compare with the strict namespace, where that allows the dtypes."""
    try:
        with np.errstate(all="ignore"):
            wanted = getattr(strict, name)(*[
                strict.asarray(x.copy()) if isinstance(x, np.ndarray) else x for x in given])
    except (TypeError, ValueError, OverflowError):
        return 0
    with np.errstate(all="ignore"):
        found = getattr(la, name)(*[
            la.from_array(x, chunks=2) if isinstance(x, np.ndarray) else x for x in given])
        values = found.compute()
    assert found.dtype == wanted._array.dtype, given
    np.testing.assert_allclose(values, wanted._array, rtol=1e-5, err_msg=repr(given))
    return 1


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_promotion_and_values(name):
    """Of arrays of two dtypes each, and of an array and a number of Python."""
    pairs = [(a, DTYPES[(i * 5 + j * 3) % 13]) for i, a in enumerate(DTYPES) for j in (0, 1)]
    if ELEMENTWISE[name] == 1:
        assert sum(_agree(name, _values(dtype, 0)) for dtype in DTYPES)
        return
    compared = sum(_agree(name, abs(_values(a, 1)), abs(_values(b, 2))) for a, b in pairs)
    compared += sum(_agree(name, _values(dtype, 3), 2) for dtype in DTYPES)
    compared += sum(_agree(name, 1.5, _values(dtype, 3)) for dtype in DTYPES)
    compared += sum(_agree(name, _values(DTYPES[0], n), _values(DTYPES[0], n + 1)) for n in (0, 1))
    assert compared


def test_result_type_of_every_pair():
    for a in DTYPES:
        for b in DTYPES:
            if np.result_type(a, b) in DTYPES:
                assert la.result_type(la.ones(1, dtype=a), b) == np.result_type(a, b)
    assert la.result_type(la.ones(1, dtype="f4"), 1j) == "c8"


def test_what_programs_ask_of_a_namespace():
    x = la.arange(3)
    assert x.__array_namespace__(api_version="2024.12") is la
    with pytest.raises(ValueError, match="2024.12 of the Array API"):
        x.__array_namespace__(api_version="1999.01")
    info = la.__array_namespace_info__()
    assert list(info.devices()) == [info.default_device()] == [x.device]
    assert info.dtypes(kind="integral").keys() == {f"{u}int{n}" for u in ("", "u")
                                                   for n in (8, 16, 32, 64)}
    most = info.capabilities()["max dimensions"]
    assert la.sum(la.ones((1,) * most), axis=0).compute().ndim == most - 1


def test_devices():
    x = la.ones(3)
    assert x.to_device("cpu") is x
    for make in (lambda **k: la.asarray([1], **k), lambda **k: la.ones_like(x, **k),
                 lambda **k: la.eye(2, **k), lambda **k: la.arange(2, **k),
                 lambda **k: la.linspace(0, 1, num=3, **k), lambda **k: la.full(2, 1, **k),
                 lambda **k: la.from_dlpack(x, **k)):
        assert make(device="cpu").device == "cpu"
        with pytest.raises(ValueError, match="device='gpu'"):
            make(device="gpu")


def test_dlpack_goes_both_ways():
    x = la.arange(4, chunks=3) * 2
    np.testing.assert_array_equal(np.from_dlpack(x), [0, 2, 4, 6])
    assert x.__dlpack_device__() == (1, 0)
    source = np.arange(4)
    assert la.from_dlpack(source).sum() == 6
    assert la.from_dlpack(x) is x
    assert la.from_dlpack(x, copy=True) is not x


def test_copies_of_asarray():
    source, x = np.zeros(3), la.zeros(3)
    copied, other = la.asarray(source, copy=True), la.asarray(x, copy=True)
    source[0] = x[0] = 1
    assert copied.sum() == other.sum() == 0
    assert la.asarray(x, copy=False) is x
    for given, dtype in (([1], None), (x, "f4")):
        with pytest.raises(ValueError, match="copy"):
            la.asarray(given, dtype, copy=False)


@pytest.mark.parametrize("x", [
    _values(np.dtype("u1"), 1), _values(np.dtype("i8"), 1), _values(np.dtype("?"), 1),
    np.array([2, np.nan, 1, 2]), np.array([1 + 2j, 1 + 1j, 2]),
    np.array(["2020", "NaT", "2021", "2020"], "M8[Y]"),
], ids=lambda x: str(x.dtype))
def test_descending_order_has_nan_last_and_keeps_equal_ones(x):
    order = la.argsort(la.from_array(x, chunks=2), descending=True, stable=True).compute()
    down = sorted(range(len(x)), key=lambda i: (bool(x[i] != x[i]), -np.searchsorted(
        np.unique(x), x[i])))
    assert order.tolist() == down
    found = la.sort(la.from_array(x, chunks=2), descending=True)
    np.testing.assert_array_equal(found.compute(), x[down])
    with pytest.raises(TypeError, match="la.flip"):
        la.sort(la.asarray(["a"]), descending=True)


def test_unstack():
    x = np.arange(6).reshape(2, 3)
    for axis in (0, -1):
        found = np.unstack(la.from_array(x, chunks=2), axis=axis)
        assert [y.compute().tolist() for y in found] == [
            y.tolist() for y in np.unstack(x, axis=axis)]
    with pytest.raises(ValueError, match="at least 1-d"):
        la.unstack(la.asarray(1))


def test_xarray_indexes_by_arrays_that_share_axes():
    xr = pytest.importorskip("xarray")
    values = np.arange(24).reshape(4, 6)
    x = xr.DataArray(la.from_array(values, chunks=2), dims=("x", "y"))
    i, j = xr.DataArray([0, 2, 3], dims="p"), xr.DataArray([5, 1, 1], dims="p")
    found = x.isel(x=i, y=j).data
    assert isinstance(found, la.Array)
    np.testing.assert_array_equal(found, values[[0, 2, 3], [5, 1, 1]])


@pytest.mark.slow
def test_estimators_of_scikit_learn_stay_with_chunked_arrays():
    pytest.importorskip("array_api_compat")
    path = os.pathsep.join([str(pathlib.Path(__file__).parents[1] / "helpers"), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "sklearn_by_lazyflow"], check=False, timeout=120, text=True,
        env={**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": path}, capture_output=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_scikit_learn_alone_is_told_lengths_that_have_to_be_computed(monkeypatch):
    sklearn = pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    x = la.from_array([3, 1, 3], chunks=2)
    names = {"__name__": "sklearn.some.module"}
    exec("def shape_of(x): return x.shape", names)
    assert names["shape_of"](la.unique_values(x)) == (None,)  # it does not compute with it
    monkeypatch.setattr(sklearn, "get_config", lambda: {"array_api_dispatch": True})
    assert la.unique_values(x).shape == (None,) and names["shape_of"](la.unique_values(x)) == (2,)
    assert names["shape_of"](x[x > 1]) == (2,) and names["shape_of"](x) == (3,)
