"""Fourier transforms against NumPy's: every function, dtype, norm and length, in any chunks."""

import numpy as np
import pytest
import scipy.fft

import lazyflow.array as la

VALUES = np.random.default_rng(0).normal(size=(6, 5, 7))
SINGLE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL = ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]


def chunked(dtype="f8"):
    return la.from_array(VALUES.astype(dtype), chunks=(4, 2, 3))


def check(got, wanted):
    assert isinstance(got, la.Array)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    computed = got.compute()
    assert computed.dtype == wanted.dtype
    eps = np.finfo(wanted.dtype).eps
    np.testing.assert_allclose(computed, wanted, rtol=0, atol=20 * eps * abs(wanted).max(initial=0))


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize(("dtype", "keywords"), [
    ("f8", {}), ("f4", {"n": 4}), ("i2", {"n": 10, "axis": 0, "norm": "ortho"}),
    ("?", {"axis": 1, "norm": "forward"}), ("c8", {"axis": -3}), (">f8", {"n": 9}),
])
def test_one_axis(name, dtype, keywords):
    function = getattr(np.fft, name)
    if dtype == "c8" and name in ("rfft", "ihfft"):
        with pytest.raises(TypeError, match="rfft"):
            function(chunked(dtype))
        return
    check(function(chunked(dtype), **keywords), function(VALUES.astype(dtype), **keywords))


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("keywords", [
    {}, {"axes": (0, 2)}, {"s": (4, 8), "axes": (2, 0)}, {"s": (4, -1), "axes": (1, 2)},
    {"axes": (1, 1), "norm": "ortho"}, {"axes": (0,)},
])
def test_several_axes(name, keywords):
    function = getattr(np.fft, name)
    if keywords.get("axes") == (1, 1) and "r" in name:
        pytest.skip("the length along an axis that comes twice is undefined")
    check(function(chunked(), **keywords), function(VALUES, **keywords))


def test_empty_axes_unknown_lengths_out_and_shifts():
    check(la.fft.fft(la.ones((0, 4))), np.fft.fft(np.ones((0, 4))))
    check(la.fft.fft(la.ones((2, 0)), n=3), np.fft.fft(np.ones((2, 0)), n=3))
    v = chunked().ravel()
    check(np.fft.rfft(v[v > 0]), np.fft.rfft(VALUES[VALUES > 0]))
    out = la.zeros(5, dtype=complex)
    la.fft.fft(la.arange(5), out=out)
    check(out, np.fft.fft(np.arange(5)))
    for axes in None, 1, (0, -1):
        for function in np.fft.fftshift, np.fft.ifftshift:
            np.testing.assert_array_equal(function(chunked(), axes), function(VALUES, axes))


@pytest.mark.parametrize("n", [1, 8, 9])
def test_frequencies_have_the_bits_of_numpy(n):
    for name in "fftfreq", "rfftfreq":
        wanted = getattr(np.fft, name)(n, 0.3)
        got = getattr(la.fft, name)(n, 0.3, chunks=4)
        assert got.compute().tolist() == wanted.tolist()


@pytest.mark.parametrize(("call", "error"), [
    (lambda fft, x: fft.fft(x, 0), ValueError), (lambda fft, x: fft.fft(x, axis=3), IndexError),
    (lambda fft, x: fft.fft(x, norm="no"), ValueError),
    (lambda fft, x: fft.fftfreq(1.5), ValueError),
    (lambda fft, x: fft.fftn(x, (2, 3), (1,)), ValueError),
    (lambda fft, x: fft.irfft(x[..., :1]), ValueError),
    (lambda fft, x: fft.rfftn(x, axes=()), IndexError),
])
def test_errors_are_those_of_numpy_at_the_call(call, error):
    for fft, x in (np.fft, VALUES), (la.fft, chunked()):
        with pytest.raises(error):
            call(fft, x)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize("s, axes, words", [
    ((2, 3), None, "`axes` should not be `None`"),
    ((2, None), (0, 1), "Passing an array containing `None` values to `s`"),
])
def test_lengths_are_deprecated_as_in_numpy(name, s, axes, words):
    for fft, x in (np.fft, VALUES), (la.fft, chunked()):
        with pytest.warns(DeprecationWarning, match=words) as told:
            getattr(fft, name)(x, s, axes)
    assert told[0].filename == __file__


def test_transforms_of_other_libraries():
    check(la.fft.fft_wrap(scipy.fft.rfft)(chunked()), scipy.fft.rfft(VALUES))
    check(la.fft.fft_wrap(scipy.fft.irfft2)(chunked(), (4, 6)), scipy.fft.irfft2(VALUES, (4, 6)))
    wrapped = la.fft.fft_wrap(scipy.fft.rfft2)(chunked(), s=(4, 6), axes=(1, 0))
    check(wrapped, scipy.fft.rfft2(VALUES, s=(4, 6), axes=(1, 0)))
    wrapped = la.fft.fft_wrap(scipy.fft.rfft)(chunked(), n=4, axis=0)
    check(wrapped, scipy.fft.rfft(VALUES, n=4, axis=0))
    dct = la.fft.fft_wrap(scipy.fft.dct, kind="fft")
    check(dct(chunked(), axis=0), scipy.fft.dct(VALUES, axis=0))
    with pytest.raises(ValueError, match="unknown `kind` dct"):
        la.fft.fft_wrap(scipy.fft.dct)


def test_blocks_are_cut_into_strips():
    values = np.random.default_rng(1).normal(size=(3000, 100))
    for axis in 0, 1:
        wanted = np.fft.fft(values, axis=axis)
        check(la.fft.fft(la.from_array(values, chunks=-1), axis=axis), wanted)
