"""Differences from NumPy that are right, each with its reason and as narrow as can be."""

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Explained:
    """A reason, and what tells of a `Different` whether it is the cause."""

    reason: str
    holds: Any


def _refused(words):
    return lambda d: d.why in ("raises here", "error") and re.search(words, d.what)


def _of_objects(code):
    return lambda d: d.why == "values" and "|O" in d.what and re.search(code, d.line.code)


EXPLAINED = [
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
        lambda d: ".view(" in d.line.code and "f16" in str(d.program),
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
        lambda d: d.why == "error" and (d.line.how == "changes" or re.search(
            "block|column_stack|insert|piecewise|vectorize|take_along_axis|apply_along", d.line.code
        )),
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
        lambda d: d.why == "sign of zero" and re.search(
            r"\b(nan)?(max|min)\(|\ba(max|min)\(|unique|union1d", d.line.code
        ),
    ),
    Explained(
        "NumPy rounds what it pads spans of time with, and refuses it since they have no rint",
        lambda d: "xp.pad(" in d.line.code and "ufunc 'rint' not supported" in d.what,
    ),
    Explained(
        "NumPy pads arrays of objects with numbers of its own types",
        _of_objects(r"xp\.pad\("),
    ),
    Explained(
        "NumPy keeps a 0-d array as the object at a single place of an array of objects",
        _of_objects(r"= np\.array\(2\.5\)"),
    ),
    Explained(
        "take looks at places also where NumPy has nothing to take, and looks at none",
        lambda d: "take(" in d.line.code and d.why == "raises here"
        and re.search("is out of bounds for axis|from an empty axes", d.what)
        and re.search(r"NumPy gives \S+ \(0, .*\) \[\]$", d.what),
    ),
    Explained(
        "places of a triangle need lengths that are known",
        lambda d: re.search("tri[lu]_indices_from", d.line.code)
        and d.what.startswith("SizesNeeded"),
    ),
    Explained(
        "NumPy has BLAS multiply an array by a number in dot: 0 of what is not finite, and no -0.0",
        lambda d: (d.why == "sign of zero" and re.search(r"xp\.dot\(v\d+, \d\)", d.line.code))
        or (d.why == "values" and re.search(r"xp\.dot\(v\d+, 0\)", d.line.code)),
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


def _in(code, *whys):
    return lambda d: d.why in whys and re.search(code, d.line.code)


#: Faults that are known and not mended yet: they are counted by themselves.
OPEN = [
    Explained("the sign of zero of sums and products", lambda d: (
        d.why == "sign of zero" and d.line.how == "sums"
    )),
    Explained("NaN in the parts of complex products and variances", lambda d: (
        d.why == "values" and "nan" in d.what and ("<c" in d.what or ">c" in d.what)
        and re.search(
            "matmul|dot|inner|outer|einsum|@|prod|matvec|vecmat|cross|var|std|cov|corrcoef",
            d.line.code,
        )
    )),
    Explained("sums and products of objects, whose order tells types and rounding", lambda d: (
        "|O" in d.what and d.why in ("values", "raises here") and re.search(
            r"sum|prod|reduce|mean|dot|inner|outer|matmul|einsum|trace| @ ", d.line.code
        )
    )),
    Explained("union1d of objects", _in("union1d", "shape", "values")),
    Explained("assigning no elements of another shape", lambda d: (
        d.line.how == "changes" and d.why == "raises here" and "NumPy gives" in d.what
        and ", 0" in d.what.split("NumPy gives")[1]
    )),
    Explained("linear_ramp to a ulp", _in("linear_ramp", "ulps")),
    Explained("hypot.reduce of longdouble to a ulp", _in("hypot.reduce", "ulps")),
    Explained("select and setting where NumPy casts only types of the same kind", lambda d: (
        d.why == "passes here" and ("rule 'same_kind'" in d.what or "Cannot cast" in d.what
                                    or "Could not convert object" in d.what)
    )),
    Explained("the order of bytes that topk, where and frompyfunc keep", _in(
        "topk|where|frompyfunc|broadcast_arrays|take", "declared", "type"
    )),
]


def known_fault(different):
    """Return which known fault a difference is, or None."""
    return next((each.reason for each in OPEN if each.holds(different)), None)


def explanation(different):
    """Return why a difference is right, or None."""
    return next((each.reason for each in EXPLAINED if each.holds(different)), None)
