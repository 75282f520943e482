"""Sorts types into the few kinds that the library treats differently, once per type.

Every argument of every call and every result of every task is classified. That must cost no more
than a dict lookup, so `kinds` maps an exact type to a small integer and classifies a type when it
is first met. numpy and pandas are recognised without importing them: an object of theirs can only
exist when they have been imported.
"""

import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lazyflow.finalizers import WeakTable

V = TypeVar("V")

ATOM = 0  # never searched, handed over as it is
LAZY = 1  # a Task: becomes an input
COLLECTION = 2  # made of tasks, acts as something else (the protocol in api/collection.py)
LIST = 3
TUPLE = 4
DICT = 5
SET = 6
FROZENSET = 7
SLICE = 8
NAMEDTUPLE = 9
DATACLASS = 10
LISTLIKE = 11  # subclasses of list and set, and deque: copied, emptied and filled again
DICTLIKE = 12  # subclasses of dict
ITERATOR = 13  # taken once at the call; every execution gets a fresh iterator
DICTVIEW = 14
ARRAY = 15  # numpy.ndarray and its subclasses: handed over as a read-only view
FRAME = 16  # pandas DataFrame, Series: handed over as a copy, see `frame_copy`
#: Follows dask's protocol: becomes a task that has dask compute it, where it is lazy. Or it is the
#: future of an engine.
FOREIGN = 17
KEPT = 18  # a run's own: stands for an array whose memory may be in a file

#: Types whose values can't be edited.
IMMUTABLE = frozenset({int, float, complex, bool, str, bytes, type(None)})

#: Results of these kinds are copied for each consumer, so that an edit stays private.
COPIED = frozenset({LIST, DICT, SET, LISTLIKE, DICTLIKE, FRAME})

_NONE: Mapping[type, Any] = {}

_EXACT: dict[type, int] = {
    list: LIST,
    tuple: TUPLE,
    dict: DICT,
    set: SET,
    frozenset: FROZENSET,
    slice: SLICE,
    types.GeneratorType: ITERATOR,
    type(iter([])): ITERATOR,
    type(iter(())): ITERATOR,
    type(iter(set())): ITERATOR,
    type(reversed([])): ITERATOR,
    type(iter({})): ITERATOR,
    type(iter({}.values())): ITERATOR,
    type(iter({}.items())): ITERATOR,
    map: ITERATOR,
    zip: ITERATOR,
    filter: ITERATOR,
    enumerate: ITERATOR,
    reversed: ITERATOR,
    type({}.keys()): DICTVIEW,
    type({}.values()): DICTVIEW,
    type({}.items()): DICTVIEW,
    type(OrderedDict().keys()): DICTVIEW,
    type(OrderedDict().values()): DICTVIEW,
    type(OrderedDict().items()): DICTVIEW,
    **dict.fromkeys((int, float, complex, bool, str, bytes, bytearray, type(None)), ATOM),
}


def _classify(t: type) -> int:
    kind: int | None = getattr(t, "_lazyflow_kind", None)
    if kind is not None:
        return kind
    if hasattr(t, "__lazyflow_tasks__"):
        return COLLECTION
    if issubclass(t, tuple):
        return NAMEDTUPLE if hasattr(t, "_fields") and hasattr(t, "_make") else ATOM
    if issubclass(t, list | deque | set):
        return LISTLIKE
    if issubclass(t, frozenset):
        return FROZENSET
    if issubclass(t, dict):
        return DICTLIKE
    if hasattr(t, "__dataclass_fields__"):
        return DATACLASS
    return _classify_foreign(t)


_FUTURES = frozenset({("distributed.client", "Future"), ("ray", "ObjectRef")})


def frame_copy(frame: Any) -> Any:
    """Return a copy of an object of pandas: an edit of one of the two is not seen in the other.

    From pandas 3 on the two share their memory until one is edited, in earlier versions by an
    option only: where they do not, all of it is copied now.
    """
    pandas: Any = sys.modules["pandas"]
    shares = int(pandas.__version__.partition(".")[0]) >= 3 or (
        pandas.options.mode.copy_on_write is True
    )
    return frame.copy(deep=not shares)


def _classify_foreign(t: type) -> int:
    if hasattr(t, "__dask_graph__"):
        return FOREIGN
    if any((each.__module__, each.__name__) in _FUTURES for each in t.__mro__):
        return FOREIGN
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and issubclass(t, getattr(numpy, "ndarray", ())):
        return ARRAY
    pandas: Any = sys.modules.get("pandas")
    if pandas is None or not hasattr(pandas, "Series"):  # or it is being imported just now
        return ATOM
    return FRAME if issubclass(t, (pandas.DataFrame, pandas.Series)) else ATOM


class TypeTable(dict[type, V]):
    """The results of a function of types: called once for each type, and kept as long as the type.

    Parameters
    ----------
    classify
        Is called with a type that is met for the first time.
    known
        Results for some types without a call.

    Examples
    --------
    >>> names = TypeTable(lambda t: t.__name__, {int: "whole number"})
    >>> names[int], names[str], sorted(names.values())
    ('whole number', 'str', ['str', 'whole number'])
    """

    __slots__ = ("_classify", "_passing")

    # A class of a function or a notebook cell may hold anything: it is kept no longer than the
    # program keeps it, at 0.33 us a look instead of 0.05.

    def __init__(self, classify: Callable[[type], V], known: Mapping[type, V] = _NONE) -> None:
        super().__init__(known)
        self._classify = classify
        self._passing: WeakTable[type, tuple[V]] = WeakTable()

    def __missing__(self, t: type) -> V:
        known = self._passing.get(t)
        if known is not None:
            return known[0]
        kind = self._classify(t)
        if _stays(t):
            self[t] = kind
        else:
            self._passing[t] = (kind,)
        return kind


def _stays(t: type) -> bool:
    """Tell whether a type is there for as long as its module is, other than the program's own."""
    module = getattr(t, "__module__", None)
    if type(module) is not str or module == "__main__":
        return False
    first, *rest = t.__qualname__.split(".")
    # Not by `getattr`: a module that imports names on first use would do so here.
    attribute: Any = getattr(sys.modules.get(module), "__dict__", {}).get(first)
    for part in rest:
        attribute = getattr(attribute, part, None)
    return attribute is t


#: ``kinds[type(x)]`` is the kind of ``x``.
kinds = TypeTable(_classify, _EXACT)


#: Kinds of results that need work when they are stored: see store/protected.py.
_STORED = COPIED | {LAZY, COLLECTION, ARRAY, ITERATOR, TUPLE, NAMEDTUPLE, DATACLASS, KEPT}


def _is_table(t: type) -> bool:
    """Tell whether objects of a type are sparse matrices, or tables or columns of Arrow."""
    names = [each.__module__ for each in t.__mro__ if type(each.__module__) is str]
    return any(
        name.startswith("scipy.sparse") or name.partition(".")[0] in _OF_TABLES for name in names
    )


_OF_TABLES = ("polars", "pyarrow", "sparse")

#: ``tables[type(x)]`` tells whether ``x`` has large memory although its kind is ATOM.
tables = TypeTable(_is_table)

#: ``stored[type(x)]`` tells whether a result ``x`` needs more than being put in its place.
stored = TypeTable(lambda t: kinds[t] in _STORED or tables[t], {types.CoroutineType: True})
