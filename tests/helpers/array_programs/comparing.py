"""Whether what lazyflow made is what NumPy made: shape, type, bits or a bound, or the error."""

import re
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Computed:
    """An array of lazyflow's, computed, and what it said it would be."""

    value: np.ndarray
    dtype: np.dtype
    shape: tuple

    @classmethod
    def of(cls, x, value):
        if not isinstance(value, np.ndarray):  # an element
            found = np.empty((), x.dtype if x.dtype.kind in "OUSV" else np.asarray(value).dtype)
            found[()] = value
            value = found
        return cls(np.array(value), x.dtype, x.shape)


class Inexact:
    """How far from NumPy's a result may be that was added up in another order.

    A multiple of the machine's precision, of the largest operands that the code names, and of how
    many there are; for deviations of their squares.
    """

    def __init__(self, line, before):
        arrays = {name: value for name, value in before.items() if isinstance(value, np.ndarray)}
        self.scale = 1.0
        for name in re.findall(r"\bv\d+\b", line.code):
            if name in arrays:
                self.scale *= _largest(arrays[name]) ** (2 if line.how == "moments" else 1)
        self.count = 64 + max([value.size for value in arrays.values()], default=0)
        self.types = [value.dtype for value in arrays.values() if value.dtype.kind in "fc"]

    def near(self, found, wanted, dtype):
        types = [t for t in (*self.types, dtype) if t.kind in "fc"]
        eps = float(max([np.finfo(t).eps for t in types], default=2e-16))
        with np.errstate(all="ignore"):
            far = abs(found - wanted)
            return far <= eps * self.count * (abs(wanted) + self.count * self.scale)


class NearlyNumpys:
    """A result of a function that is within a unit in the last place, as NumPy's within some."""

    def near(self, found, wanted, dtype):
        with np.errstate(all="ignore"):
            return abs(found - wanted) <= 8 * np.spacing(abs(wanted))


def _largest(a):
    if a.dtype.kind not in "biufc" or not a.size:
        return 1.0
    sizes = abs(a.astype("c16" if a.dtype.kind == "c" else "f8"))
    return min(float(np.max(sizes, where=np.isfinite(sizes), initial=1.0)), 1e70)


def difference(mine, wanted, bound):
    """Return the class of a difference and words for it, or None."""
    if isinstance(wanted, Exception):
        if not isinstance(mine, Exception):
            return "passes here", f"NumPy raises {_shown(wanted)}; here {_shown(mine)}"
        if not (isinstance(mine, type(wanted)) or isinstance(wanted, type(mine))):
            return "error", f"NumPy raises {_shown(wanted)}; here {_shown(mine)}"
        return None
    if isinstance(mine, Exception):
        return "raises here", f"{_shown(mine)}; NumPy gives {_shown(wanted)}"
    if isinstance(mine, Computed):
        if isinstance(wanted, list):
            return "shape", f"{_shown(mine.value)}; NumPy gives {_shown(wanted)}"
        made, wanted = mine.value, _array(wanted, mine.value)
        said = mine.dtype
        if not made.ndim and made.dtype.kind not in "OV":  # elements are of native order
            made, wanted = [a.astype(a.dtype.newbyteorder("=")) for a in (made, wanted)]
            said = said.newbyteorder("=")
            if {made.dtype.kind, wanted.dtype.kind} in ({"S"}, {"U"}):  # as long as they have to be
                said = np.result_type(made, wanted)
                made, wanted = made.astype(said), wanted.astype(said)
        if made.dtype != said:
            return "declared", f"{mine.dtype.str} said, {made.dtype.str} computed"
        if any(n not in (None, m) for n, m in zip(mine.shape, made.shape, strict=False)):
            return "declared", f"{mine.shape} said, {made.shape} computed"
        return _arrays(made, wanted, bound)
    if isinstance(wanted, list) or isinstance(mine, list):
        if repr(wanted) != repr(mine):
            return "values", f"{_shown(mine)}; NumPy gives {_shown(wanted)}"
        return None
    return _arrays(np.asarray(mine), np.asarray(wanted), bound)


def _array(wanted, made):
    if isinstance(wanted, np.ndarray):
        if made.dtype != object or wanted.ndim or wanted.dtype == object:
            return wanted
        found = np.empty((), object)  # the object was a number of NumPy's
        found[()] = wanted[()]
        return found
    return np.asarray(wanted, object if made.dtype == object else None)


def _arrays(made, wanted, bound):
    both = f"{_shown(made)}; NumPy gives {_shown(wanted)}"
    if made.shape != wanted.shape:
        return "shape", both
    if made.dtype != wanted.dtype:
        return "type", both
    if made.dtype.names:
        made, wanted = [
            np.stack([a[n].astype("f8") for n in made.dtype.names]) for a in (made, wanted)
        ]
    if made.dtype.kind == "c":
        why = _numbers(*map(_parts, (made, wanted)), bound, both)
        lost = ~np.isfinite(made) & ~np.isfinite(wanted)
        if why and bound is not None and np.any(lost):
            left = [np.where(lost, 0, a).astype(made.dtype) for a in (made, wanted)]
            return _numbers(*map(_parts, left), bound, both) or ("parts", both)
        return why
    if made.dtype.kind == "O":
        same = all(map(_same_object, made.ravel(), wanted.ravel()))
        return None if same else ("values", both)
    return _numbers(made, wanted, bound, both)


def _parts(a):
    return np.stack([a.real, a.imag])


def _numbers(made, wanted, bound, both):
    if made.dtype.kind in "mM":
        made, wanted = made.astype("i8"), wanted.astype("i8")
    if made.dtype.kind != "f":
        return None if np.all(made == wanted) else ("values", both)
    nan = np.isnan(wanted)
    if np.any(np.isnan(made) != nan):
        return "values", both
    with np.errstate(all="ignore"):
        differ = ~nan & (made != wanted)
        if bound is not None:
            differ &= ~(np.isfinite(wanted) & bound.near(made, wanted, wanted.dtype))
        if np.any(differ):
            near = abs(made - wanted) <= 8 * np.spacing(abs(wanted))
            return "ulps" if np.all(near[differ]) else "values", both
    zero = (made == 0) & (wanted == 0)
    if np.any(np.signbit(made)[zero] != np.signbit(wanted)[zero]):
        return "sign of zero", both
    return None


def _same_object(one, other):
    return type(one) is type(other) and (one == other or (one != one and other != other))


def _shown(value):
    if isinstance(value, Computed):
        value = value.value
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {str(value).splitlines()[0] if str(value) else ''}"[:300]
    if isinstance(value, np.ndarray):
        try:
            flat = " ".join(str(value.tolist()).split())
        except SystemError:  # a view as texts that are none
            flat = value.tobytes().hex()
        return f"{value.dtype.str} {value.shape} {flat:.200}"
    return repr(value)[:200]
