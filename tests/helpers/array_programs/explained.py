"""Differences from NumPy that are right, each with its reason and as narrow as can be."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from array_programs.faults import tells_one_of_two


@dataclass(frozen=True)
class Explained:
    """A reason, and what tells of a `Different` whether it is the cause."""

    reason: str
    holds: Any


def _refused(words):
    return lambda d: d.why in ("raises here", "error") and re.search(words, d.what)


def _of_objects(code):
    return lambda d: d.why == "values" and "|O" in d.what and re.search(code, d.line.code)


_PRODUCTS = "matmul|dot|inner|einsum| @ |matvec|vecmat"


def _by(different, code):
    """Whether a line's outcome comes of a function, of its own or of a line before."""
    return any(re.search(code, line.code) for line in different.program.behind(different.line))


def _kind(different):
    """Return the kind of the elements of NumPy's array, or None if the outcome is none."""
    return different.wanted.dtype.kind if isinstance(different.wanted, np.ndarray) else None


def _out_of_range(different):
    """Whether all that differs was made of numbers that the type does not have."""
    if _kind(different) not in ("i", "u"):
        return False
    differ = different.mine.value != different.wanted
    limits = np.iinfo(different.wanted.dtype)
    for each in different.before.values():
        if isinstance(each, np.ndarray) and each.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                lost = ~((each >= limits.min) & (each <= limits.max))
            if np.any(lost & differ) if lost.shape == differ.shape else np.any(lost):
                return lost.shape != differ.shape or not np.any(differ & ~lost)
    return False


def _without_axes(different):
    """Whether something that the line names has no axes."""
    return not all(map(np.ndim, different.before.values()))


def _overflows_somewhere(different):
    """Whether what differs is not finite, and numbers add up or multiply to what overflows."""
    if _kind(different) not in ("f", "c"):
        return False
    mine, wanted = different.mine.value, different.wanted
    if np.all(np.isfinite(mine) & np.isfinite(wanted)):
        return False
    for each in different.before.values():
        if np.asarray(each).dtype.kind in "biufc":
            sizes = np.abs(np.asarray(each)).astype("g")
            sizes = sizes[np.isfinite(sizes)]
            most = np.prod(np.maximum(sizes, 1)) if "prod" in different.line.code else sizes.sum()
            if most > np.finfo(wanted.dtype).max:
                return True
    return False


def _as_numbers_equal(different):
    """Whether one of two equal outcomes has objects."""
    mine, wanted = np.asarray(different.mine.value), np.asarray(different.wanted)
    if "O" not in (mine.dtype.kind, wanted.dtype.kind) or mine.shape != wanted.shape:
        return False
    return bool(np.all(mine.astype("O") == wanted.astype("O")))


def _elements(different):
    """Return the values without axes that the line names."""
    return [x[()] if isinstance(x, np.ndarray) else x
            for x in different.before.values() if not np.ndim(x)]


def _by_number(different, number=r"\d"):
    return re.search(rf"xp\.dot\(v\d+, {number}\)", different.line.code)


def _where_numpy_overflows(different):
    if _kind(different) != "f" or different.wanted.dtype.itemsize > 4:
        return False
    differ = different.mine.value != different.wanted
    return np.all(~np.isfinite(np.asarray(different.wanted))[differ])


EXPLAINED = [
    Explained(
        "pad by nothing needs no extremes and means of the elements",
        lambda d: d.why == "passes here" and re.search(r"\.pad\(v\d+, 0, mode='m", d.line.code),
    ),
    Explained(
        "np.vectorize gives texts the length of the longest, not that of otypes",
        lambda d: "vectorize" in d.line.code and re.search(r"otypes=\['[<>|][US]", d.line.code),
    ),
    Explained(
        "arange() makes numbers; NumPy makes booleans of at most two",
        lambda d: "arange" in d.line.code and "arange() makes numbers" in d.what,
    ),
    Explained(
        "chunked arrays have no order in memory: order='K' is C order",
        lambda d: "order='K'" in d.line.code and d.why == "values",
    ),
    Explained(
        "a list of one element may be nested deeper than the part of an array that it is put into",
        lambda d: d.line.how == "changes" and d.why == "passes here"
        and "would exceed the maximum number of dimension" in d.what,
    ),
    Explained(
        "average(returned=True) gives the sum of the weights, and refuses that of 0 when the "
        "average is computed",
        lambda d: "returned=True)[1]" in d.line.code and "Weights sum to zero" in d.what,
    ),
    Explained(
        "the bytes of padding in a longdouble are any",
        lambda d: ".view(" in d.line.code and re.search("f16|'g'", str(d.program)),
    ),
    Explained(
        "isnull() and notnull() are those of pandas: of all types",
        lambda d: re.search("(is|not)null", d.line.code) and d.why == "passes here",
    ),
    Explained(
        "apply_along_axis calls nothing where there is nothing to call it for",
        lambda d: "Cannot apply_along_axis when any iteration dimensions are 0" in d.what,
    ),
    Explained(
        "of two things that are wrong NumPy tells one, and here it is the other: shapes, places "
        "and values are looked at in another order",
        tells_one_of_two,
    ),
    Explained(
        "apply_along_axis tries a function to know its type, and says what it raised",
        lambda d: d.why == "error" and "apply_along_axis(" in d.line.code
        and f"and raised {type(d.wanted).__name__}: {d.wanted}" in str(d.mine),
    ),
    Explained(
        "einsum sees no diagonal where lengths differ, and one of them is 1",
        lambda d: "for collapsing index" in d.what and d.why == "raises here",
    ),
    Explained(
        "NumPy's reference of neighbours needs none along axes without elements",
        lambda d: "map_overlap" in d.line.code and "has no elements, of which" in d.what,
    ),
    Explained(
        "average of no elements: NumPy looks at the scale, which one number is here",
        lambda d: "xp.average(" in d.line.code and "ZeroDivisionError: division by zero" in d.what,
    ),
    Explained(
        "NumPy's gradient reads the bytes of dates of the other order the wrong way round",
        lambda d: "xp.gradient(" in d.line.code and d.why == "type" and ">m8" in d.what,
    ),
    Explained(
        "which of equal zeros an extreme or a set has depends in NumPy on the place in a vector",
        lambda d: d.why == "sign of zero" and _by(
            d, r"max|min|unique|union1d|intersect1d|setxor1d|clip|sort|topk|partition"
        ),
    ),
    Explained(
        "parts of complex products that are not finite, and signs of their zeros, follow the order "
        "of BLAS",
        lambda d: d.why in ("parts", "sign of zero") and d.line.how != "exact"
        and re.search(f"{_PRODUCTS}|cov|corrcoef", d.line.code),
    ),
    Explained(
        "a view of sums or products is computed of other blocks than these",
        lambda d: d.why == "again",
    ),
    Explained(
        "NaN and numbers that an unsigned type does not have become any",
        lambda d: d.why == "values" and _out_of_range(d),
    ),
    Explained(
        "NumPy's arctan2.reduce depends on whether one row is reduced or several",
        lambda d: d.why in ("values", "ulps") and "arctan2.reduce(" in d.line.code,
    ),
    Explained(
        "chunked arrays have no order in memory, in which the last axis is not contiguous",
        lambda d: d.why == "passes here" and "the last axis must be contiguous" in d.what,
    ),
    Explained(
        "sums and products of floats by blocks overflow on the way at other places",
        lambda d: d.why == "values" and d.line.how == "sums" and _overflows_somewhere(d),
    ),
    Explained(
        "where the first are NaN alone NumPy's quantiles without NaN have the type of the array",
        lambda d: d.why == "type" and re.search("nan(quantile|percentile)", d.line.code)
        and np.isnan(d.wanted.ravel()[0]),
    ),
    Explained(
        "which complex NaN is an extreme follows NumPy's order in memory, which turned axes change",
        lambda d: d.why == "values" and re.search("max|min|ptp", d.line.code)
        and _kind(d) == "c" and _by(d, r"transpose|\.T|axes|axis\(|rot90|permute")
        and np.all(np.isnan(d.mine.value) == np.isnan(d.wanted)),
    ),
    Explained(
        "records are no numbers, whether a mask of all chooses something or not",
        lambda d: d.why == "raises here" and d.line.how == "changes"
        and re.match(r"TypeError: Cannot cast array data from dtype\(\[", d.what)
        and re.search(r"\[(flags\(|\(v\d+ > |v\d+\])", d.line.code),
    ),
    Explained(
        "variances in a small type overflow in NumPy on the way, in the sum",
        lambda d: d.why == "values" and d.line.how == "moments" and _where_numpy_overflows(d),
    ),
    Explained(
        "NumPy rounds what it pads spans of time with, and refuses it since they have no rint",
        lambda d: "xp.pad(" in d.line.code and "ufunc 'rint' not supported" in d.what,
    ),
    Explained(
        "NumPy pads a 0-d array of objects by making the array its own element",
        lambda d: d.why == "values" and re.search(r"xp\.pad\(", d.line.code)
        and _kind(d) == "O" and not d.wanted.ndim,
    ),
    Explained(
        "an array of objects without axes is one, where NumPy has the object",
        lambda d: (d.why in ("type", "raises here", "passes here") or ".dtype" in d.line.code)
        and _without_axes(d) and "'O'" in str(d.program),
    ),
    Explained(
        "NumPy's functions of objects without axes give a number, which its next one takes for an "
        "array of numbers",
        lambda d: d.why in ("type", "values") and _as_numbers_equal(d)
        and (_without_axes(d) or _by(d, r"frompyfunc|trace|einsum|nansum|sum|prod|dot|inner")),
    ),
    Explained(
        "an array of texts without axes has their type, where NumPy's text is as long as it is",
        lambda d: d.why == "type" and _without_axes(d) and _kind(d) in ("U", "S")
        and d.mine.value.dtype.kind == _kind(d),
    ),
    Explained(
        "which objects without an order are compared, and so refused, depends on the chunks",
        lambda d: d.why == "passes here" and re.search("arg(min|max)", d.line.code)
        and "not supported between instances" in d.what,
    ),
    Explained(
        "what is written by a mask is cast before it is known that nothing is chosen",
        lambda d: d.why == "raises here" and d.line.how == "changes"
        and "invalid literal for" in d.what,
    ),
    Explained(
        "select of spans of time and numbers is of native order of bytes",
        lambda d: d.why == "type" and "xp.select(" in d.line.code and _kind(d) == "m"
        and d.mine.value.dtype == d.wanted.dtype.newbyteorder(),
    ),
    Explained(
        "quantiles along axes without elements are refused by whichever step sees it first",
        lambda d: d.why == "error" and re.search("quantile|percentile", d.line.code)
        and "index 0 is out of bounds for axis 0 with size 0" in d.what,
    ),
    Explained(
        "an array without axes is one, where NumPy has an element, of native order of bytes",
        lambda d: d.why == "type" and _without_axes(d)
        and d.mine.value.dtype == d.wanted.dtype.newbyteorder(),
    ),
    Explained(
        "an array without axes is one, where NumPy has an element, of a text as long as it is",
        lambda d: d.why == "values" and d.line.how == "changes" and _kind(d) in ("S", "U")
        and not d.wanted.ndim,
    ),
    Explained(
        "NumPy's vdot of no objects is None",
        lambda d: "xp.vdot(" in d.line.code and d.what.endswith("NumPy gives |O () None"),
    ),
    Explained(
        "NumPy keeps a 0-d array as the object at a single place of an array of objects",
        _of_objects(r"= np\.array\(2\.5\)"),
    ),
    Explained(
        "take looks at places also where NumPy has nothing to take, and looks at none",
        lambda d: "take(" in d.line.code and d.why == "raises here"
        and re.search("is out of bounds for axis|from an empty axes", d.what)
        and isinstance(d.wanted, np.ndarray) and not d.wanted.size,
    ),
    Explained(
        "places of a triangle need lengths that are known",
        lambda d: re.search("tri[lu]_indices_from", d.line.code)
        and d.what.startswith("SizesNeeded"),
    ),
    Explained(
        "NumPy has BLAS multiply an array by a number in dot: 0 of what is not finite, and no -0.0",
        lambda d: "xp.dot(" in d.line.code and (
            (d.why == "sign of zero" and (_by_number(d) or _without_axes(d)))
            or (d.why == "values" and _by_number(d, "0"))
            or (d.why == "values" and 0 in filter(np.isscalar, _elements(d)))
        ),
    ),
    Explained(
        "integers on the way to what is not finite are any",
        lambda d: re.search(r"linear_ramp.*end_values=.*(nan|inf)", d.line.code)
        and d.why == "values",
    ),
    Explained(
        "chunked arrays have no order in memory, and say so",
        _refused("chunked arrays have (C|no) order|chunked arrays take neither order="),
    ),
]


def explanation(different):
    """Return why a difference is right, or None."""
    return next((each.reason for each in EXPLAINED if each.holds(different)), None)
