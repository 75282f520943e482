"""Names made from content: equal for equal content, on any machine and in any process.

`tokenize` makes the names of pure tasks. Guarantees:

- the token depends on type (``1``, ``True``, ``1.0``, ``"1"`` and ``np.int64(1)`` all differ), the
  sign of zero, dtype and shape. It does not depend on sharing (``[x, x]`` and ``[x, copy(x)]``), an
  array's memory order, or the order of dicts and sets; the order of an `OrderedDict` counts;
- the token is of the current content: an object that changes later has another token;
- an object without comparable content (a lock, generator, open file, bare ``object()``) gets a
  unique token, or with ``strict=True`` raises `TypeError`;
- references outside a function's code are not followed: modules count by name, and an importable
  function counts without the functions that it calls.

`contents` returns the parts that an object consists of, by the first rule that fits:

1. atoms and builtin containers, of exactly these types, by value;
2. ``__lazyflow_tokenize__()``, else ``__dask_tokenize__()``, with the object's class;
3. functions and classes, enum members, bound methods, modules;
4. NumPy, SciPy, pandas, Numba;
5. the result of ``copyreg`` or ``__reduce_ex__(4)``.

All look-ups go through ``type(obj)``, so that ``__getattr__``, ``__eq__``, ``__len__`` and
``__class__`` of a hostile object are never called.
"""

from __future__ import annotations

import copyreg
import enum
import functools
import marshal
import pickle
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import sha256
from itertools import chain
from operator import itemgetter
from os import urandom
from types import CellType, CodeType, FunctionType
from typing import Any

from lazyflow.finalizers import WeakTable
from lazyflow.graph.function_code import (
    MOST_WRAPPERS,
    code_fields,
    globals_read,
    resolve,
    wrapped_functions,
)
from lazyflow.graph.tokens.digests import (
    Digest,
    MerkleNode,
    NoContent,
    hashed,
    hashed_buffer,
    merkle,
    type_name,
)

# -- containers ---------------------------------------------------------------------------
#
# Atoms are encoded in runs by `marshal`, about 20 ns each, and only the other objects become
# children. It is version 2 of the format, the last whose bytes depend neither on reference counts
# nor on interned strings. The encoding depends on content alone, never on identity.

ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None), type(...)})
_SORTABLE = frozenset({int, str, bytes})
_TEXT = frozenset({str, bytes})
_COPY_LIMIT = 1 << 26  # characters in one marshal string; text beyond is hashed one by one
_SHORT = 8  # mean length up to which rows are encoded with the list that holds them; a guess


def encoded(value: Any) -> bytes:
    """Return the `marshal` bytes of atoms, or of tuples and lists of them."""
    return marshal.dumps(value, 2)


def nested(content: bytes | MerkleNode) -> Digest | MerkleNode:
    """Return contents as a child of another node: plain bytes would be taken for a value."""
    return content if isinstance(content, MerkleNode) else Digest(content)


def sequence(
    head: bytes,
    values: Sequence[Any],
    labels: Sequence[Any] | None = None,
    style: str = "[{!r}]",
) -> bytes | MerkleNode:
    """Return the contents of a list or tuple; ``labels`` name the values instead of indices."""
    kinds = set(map(type, values))
    if kinds <= ATOMS:
        if _fits(kinds, values):
            return hashed(head, b"\0", encoded(values))
        where, atoms = list(range(len(values))), []
    elif _has_flat_rows(kinds, values):
        return hashed(head, b"\0", encoded(values))
    else:
        where = [i for i, value in enumerate(values) if type(value) not in ATOMS]
        atoms = [value for value in values if type(value) in ATOMS]
        if not _fits(kinds, atoms):
            where, atoms = list(range(len(values))), []
    names = where if labels is None else [labels[i] for i in where]
    head += b"\1" + encoded((where, atoms))
    return MerkleNode(head, [values[i] for i in where], names, style)


def _fits(kinds: set[type], atoms: Sequence[Any]) -> bool:
    """Tell whether the text among the atoms is small enough to be copied."""
    text = kinds & _TEXT
    if not text:
        return True
    if text == kinds:
        return sum(map(len, atoms)) <= _COPY_LIMIT
    return sum(len(atom) for atom in atoms if type(atom) in _TEXT) <= _COPY_LIMIT


def _has_flat_rows(kinds: set[type], values: Sequence[Any]) -> bool:
    """Tell whether the values are all short lists, or all short tuples, of atoms.

    They have to be short, since a row that is there several times is encoded each time.
    """
    if len(kinds) != 1 or (list not in kinds and tuple not in kinds):
        return False
    if sum(map(len, values)) > _SHORT * len(values):
        return False
    inner = set(map(type, chain.from_iterable(values)))
    return inner <= ATOMS and _fits(inner, list(chain.from_iterable(values)))


def mapping(
    head: bytes, keys: Sequence[Any], values: Sequence[Any], style: str = "[{!r}]"
) -> bytes | MerkleNode:
    """Return the contents of pairs whose order does not matter."""
    kinds = set(map(type, keys))
    if len(kinds) == 1 and kinds <= _SORTABLE:
        pairs = sorted(zip(keys, values, strict=True), key=itemgetter(0))
        keys = [key for key, _ in pairs]
        head += b"\0" + encoded(keys)
        return sequence(head, [value for _, value in pairs], keys, style)
    flat: list[bytes] = []
    children: list[Any] = []
    for key, value in zip(keys, values, strict=True):
        if type(value) in ATOMS and _is_flat(key) and _fits({type(value)}, (value,)):
            flat.append(encoded((key, value)))
        else:
            children.append(MerkleNode(b"pair\0", (key, value), (key, key), style))
    flat.sort()
    return MerkleNode(head + b"\1" + encoded(flat), children, ordered=False)


def _is_flat(key: Any) -> bool:
    return type(key) in ATOMS or (type(key) is tuple and ATOMS.issuperset(map(type, key)))


def unordered(head: bytes, values: Collection[Any]) -> bytes | MerkleNode:
    """Return the contents of a set, given in any order."""
    kinds = set(map(type, values))
    if len(kinds) == 1 and kinds <= _SORTABLE:
        return hashed(head, b"\0", encoded(sorted(values)))
    flat = sorted(encoded(value) for value in values if _is_flat(value))
    children = [value for value in values if not _is_flat(value)]
    return MerkleNode(head + b"\1" + encoded(flat), children, children, "[{!r}]", ordered=False)


# -- contents of functions and classes ----------------------------------------------------
#
# Importable functions and classes count by name and source: a function by its code and the
# functions it wraps, each with its default values and closure where these are atoms (other values
# by type: many are sentinels, locks or caches); a class by the functions in its own body. Functions
# that they call are not followed.
#
# Others (lambdas, closures, everything of ``__main__``) have no name that another process could
# use, so they count by all that their results depend on: code, defaults, closure, and the values of
# the globals that the code reads; a class by its bases and its whole body. Names, attributes and
# annotations of functions, file names and line numbers do not count.
#
# The digest of a function's code is kept for as long as the function lives and is made again when
# ``__code__`` was replaced.


Contents = Callable[[Any], bytes | MerkleNode]

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made at run time, by a class statement for instance
_MAIN = frozenset({"__main__", "__mp_main__"})
_NAME = itemgetter(0)
_NOT_CONTENT = frozenset(  # of a class body: slots of the interpreter, caches, places in the file
    {
        "__dict__",
        "__weakref__",
        "__module__",
        "__firstlineno__",
        "__static_attributes__",
        "__annotate_func__",
        "__annotations_cache__",
        "_abc_impl",
    }
)


class _Code:
    """Facts about one function's code."""

    __slots__ = ("code", "digest", "globals")

    def __init__(self, code: CodeType, contents: Contents) -> None:
        self.code = code
        self.digest = merkle(MerkleNode(b"", (code,)), contents, _raise)
        self.globals: list[str] | None = None  # found when first needed


_known: WeakTable[FunctionType, _Code] = WeakTable()


def code_contents(code: CodeType) -> bytes | MerkleNode:
    """Return the parts of a code object: instructions, names and constants."""
    return sequence(b"code\0" + encoded(code_fields(code)), code.co_consts, style=".co_consts[{}]")


def function_contents(function: FunctionType, contents: Contents) -> bytes | MerkleNode:
    """Return the parts of a function written in Python, or its digest."""
    known = _code_of(function, contents)
    if not _importable(function):
        return _local_function(function, known)
    layers = [_as_written(each, contents) for each in (function, *wrapped_functions(function))]
    return hashed(b"function\0", encoded((function.__module__, function.__qualname__, layers)))


def class_contents(cls: type, contents: Contents) -> bytes | MerkleNode:
    """Return the parts of a class, or its digest."""
    body = sorted((item for item in cls.__dict__.items() if type(item[0]) is str), key=_NAME)
    if cls.__flags__ & _HEAP_TYPE and not _importable(cls):
        inner = {name: value for name, value in body if name not in _NOT_CONTENT}
        parts = nested(mapping(b"body", list(inner), list(inner.values()), ".{}"))
        head = b"local class\0" + encoded(cls.__qualname__)
        return MerkleNode(head, (type(cls), cls.__bases__, parts), (".__class__", ".__bases__", ""))
    code = [
        (name, _as_written(function, contents))
        for name, value in body
        for function in _functions_in(value)
    ]
    return hashed(b"class\0", encoded((cls.__module__, cls.__qualname__, code)))


def closure_contents(cells: tuple[CellType, ...]) -> Digest | MerkleNode:
    """Return the parts of the variables of enclosing functions; some may have no value yet."""
    filled = _filled(cells)
    head = b"closure" + encoded([i for i, _ in filled])
    style = ".__closure__[{}].cell_contents"
    return nested(sequence(head, [value for _, value in filled], [i for i, _ in filled], style))


def _importable(obj: Any) -> bool:
    """Tell whether the name of a function or class stands for it, or for a wrapper of it."""
    module = obj.__module__
    if type(module) is not str or module in _MAIN:
        return False
    resolved = resolve(module, obj.__qualname__)
    for _ in range(MOST_WRAPPERS):
        if resolved is obj or resolved is None:
            break
        try:
            method = getattr(resolved, "__func__", None)
            resolved = resolved.__wrapped__ if method is None else method
        except Exception:  # not a wrapper, or a hostile one
            return False
    return resolved is obj


def _code_of(function: FunctionType, contents: Contents) -> _Code:
    known = _known.get(function)
    if known is None or known.code is not function.__code__:
        known = _known[function] = _Code(function.__code__, contents)
    return known


def _local_function(function: FunctionType, known: _Code) -> MerkleNode:
    if known.globals is None:
        known.globals = sorted(set(globals_read(known.code)))
    held = function.__globals__
    names = [name for name in known.globals if name in held]
    children = [
        function.__defaults__,
        function.__kwdefaults__,
        closure_contents(function.__closure__ or ()),
        nested(mapping(b"globals", names, [held[n] for n in names], ".__globals__[{!r}]")),
    ]
    labels = (".__defaults__", ".__kwdefaults__", "", "")
    return MerkleNode(b"local function\0" + known.digest, children, labels)


def _filled(cells: tuple[CellType, ...]) -> list[tuple[int, Any]]:
    filled: list[tuple[int, Any]] = []
    for i, cell in enumerate(cells):
        try:
            filled.append((i, cell.cell_contents))
        except ValueError:  # not assigned so far
            continue
    return filled


def _as_written(function: FunctionType, contents: Contents) -> tuple[Any, ...]:
    """Return code, default values and closure of a function, where they are equal everywhere."""
    digest = _code_of(function, contents).digest
    defaults, keywords, cells = function.__defaults__, function.__kwdefaults__, function.__closure__
    if defaults is keywords is cells is None:
        return (digest,)
    return (
        digest,
        [_shallow(value) for value in defaults or ()],
        sorted((name, _shallow(value)) for name, value in (keywords or {}).items()),
        [(i, _shallow(value)) for i, value in _filled(cells or ())],
    )


def _functions_in(value: Any) -> Iterator[FunctionType]:
    """Yield the functions of one name in a class body."""
    kind = type(value)
    if kind in (staticmethod, classmethod):
        value = value.__func__
    accessors = (value.fget, value.fset, value.fdel) if kind is property else (value,)
    yield from (each for each in accessors if type(each) is FunctionType)


def _shallow(value: Any) -> Any:
    """Return an atom as it is; of any other value only its type."""
    return value if type(value) in ATOMS else [type_name(type(value))]


def _raise(obj: Any, error: NoContent, path: Callable[[], str]) -> bytes:
    raise error


# -- contents of other libraries' objects -------------------------------------------------
#
# Each rule takes an object and its class and returns parts, a digest, or None where the object's
# ``__reduce_ex__`` tells its content well enough. A rule is only called for a class that its
# library is an ancestor of, so importing the library here loads nothing.
#
# Caches never count (``_cache`` of pandas, ``has_sorted_indices`` of SciPy, compiled signatures of
# Numba, the values under the mask of a pandas array), nor does how an array lies in memory. Bytes
# that hold no value (the padding of records and of long doubles) are left out.

_SIMPLE = frozenset("?bBhHiIlLqQefdgFDGSUmM")  # dtype characters that dtype.str tells all about
_BLOCK = 1 << 16  # elements of a strided array that are copied at a time; a guess
_SPARSE_NOT_CONTENT = frozenset(
    {
        "maxprint",
        "has_canonical_format",
        "has_sorted_indices",
        "_has_canonical_format",
        "_has_sorted_indices",
    }
)


def _named(cls: type, library: str) -> Any:
    """Return a library's own class by its name: its methods' code would cost 0.1 ms a token."""
    return type_name(cls) if cls.__module__.partition(".")[0] == library else cls


def _by_attributes(head: bytes, cls: Any, obj: Any, *names: str) -> MerkleNode:
    children = (cls, *(getattr(obj, name) for name in names))
    return MerkleNode(head + b"\0" + encoded(names), children, ("__class__", *names), ".{}")


def _numpy(obj: Any, cls: Any) -> bytes | MerkleNode | None:
    import numpy as np

    named = _named(cls, "numpy")
    if cls is np.ndarray or cls is np.memmap:  # memmap says where the bytes are, not what
        return _array(obj)
    if isinstance(obj, np.generic):
        state = getattr(obj, "__dict__", None)
        return MerkleNode(b"scalar\0", (named, np.asarray(obj), state), ("", "", ".__dict__"))
    if isinstance(obj, np.dtype):
        return hashed(b"dtype\0", encoded(obj.str)) if _is_simple(obj) else None
    if isinstance(obj, np.ma.MaskedArray):
        own = obj.view()  # asking for fill_value stores it
        mask = np.ma.getmaskarray(own)
        masked = (named, own.data, mask, own.fill_value, own.hardmask)
        return MerkleNode(b"masked\0", masked, ("", ".data", ".mask", ".fill_value", ""))
    if isinstance(obj, np.ndarray):
        pickles_alike = (
            cls.__reduce__ is np.ndarray.__reduce__
            and cls.__reduce_ex__ is np.ndarray.__reduce_ex__
        )
        if not pickles_alike:
            return None
        state = getattr(obj, "__dict__", None)
        values = (named, obj.view(np.ndarray), state)
        return MerkleNode(b"array subclass\0", values, ("", "", ".__dict__"))
    if cls is np.ufunc:
        return _ufunc(obj)
    if cls is np.vectorize:  # it also keeps the ufuncs that it made
        names = ("pyfunc", "otypes", "excluded", "signature", "cache")
        return _by_attributes(b"vectorize", named, obj, *names)
    return None


def _is_simple(dtype: Any) -> bool:
    return dtype.char in _SIMPLE and dtype.metadata is None


def _array(array: Any) -> bytes | MerkleNode:
    """Return the values in C order, whatever the order in memory."""
    dtype = array.dtype
    shape = encoded(array.shape)
    if dtype.names is not None:
        import numpy as np

        fields = [array[name].view(np.ndarray) for name in dtype.names]
        labels = (".dtype", *dtype.names)
        return MerkleNode(b"records\0" + shape, (dtype, *fields), labels, "[{!r}]")
    if dtype.hasobject:  # also StringDType, whose memory holds addresses
        values = (dtype, array.ravel().tolist())
        return MerkleNode(b"objects\0" + shape, values, (".dtype", ".ravel()"))
    if _is_simple(dtype):
        hasher = sha256(b"array\0" + shape + encoded(dtype.str))
        _feed(array, hasher.update)
        return hasher.digest()
    hasher = sha256(b"")
    _feed(array, hasher.update)
    return MerkleNode(b"array of\0" + shape, (dtype, Digest(hasher.digest())), (".dtype", ""))


def _feed(array: Any, update: Callable[[Any], None]) -> None:
    """Pass on an array's bytes in C order; of a strided array one block at a time is copied."""
    import numpy as np

    if array.nbytes == 0:
        return
    padded = array.dtype.char in "gG" and np.finfo(np.longdouble).nmant == 63
    if array.flags.c_contiguous and not padded:
        update(array.reshape(-1).view(np.uint8))
        return
    flags = ["external_loop", "buffered"]
    blocks: Any = np.nditer(array, flags, order="C", buffersize=_BLOCK)  # type: ignore[call-overload]
    for block in blocks:
        if padded:  # 10 bytes of value, 6 of anything
            native = np.ascontiguousarray(block, dtype=array.dtype.newbyteorder("="))
            update(native.view(np.uint8).reshape(-1, 16)[:, :10].tobytes())
        else:
            update(np.ascontiguousarray(block).view(np.uint8))


def _ufunc(ufunc: Any) -> bytes | None:
    """Return a ufunc by the module that has it; pickle would take the first imported one."""
    name = ufunc.__name__
    for module in ("numpy", "scipy.special"):
        if getattr(sys.modules.get(module), name, None) is ufunc:
            return hashed(b"ufunc\0", encoded((module, name)))
    return None


def _scipy(obj: Any, cls: type) -> MerkleNode | None:
    sparse: Any = sys.modules.get("scipy.sparse")
    if not hasattr(sparse, "issparse") or not sparse.issparse(obj):
        return None
    named = _named(cls, "scipy")
    if obj.format in ("lil", "dok"):  # rows and values as inserted, by Python or NumPy types
        import numpy as np

        coo = obj.tocoo()
        coords = getattr(coo, "coords", None) or (coo.row, coo.col)  # SciPy 1.11 has no coords
        order = np.lexsort(coords[::-1])
        values = (named, obj.shape, obj.dtype, [each[order] for each in coords], coo.data[order])
        return MerkleNode(b"sparse by entry\0", values, (".__class__",) * 5)
    own = {k: v for k, v in vars(obj).items() if k not in _SPARSE_NOT_CONTENT}
    state = nested(mapping(b"sparse state", list(own), list(own.values()), ".{}"))
    return MerkleNode(b"sparse\0", (named, state), (".__class__", ""))


def _pandas(obj: Any, cls: type) -> MerkleNode | None:
    import pandas as pd

    named = _named(cls, "pandas")
    if isinstance(obj, pd.DataFrame):
        columns = [_column(series) for _, series in obj.items()]
        names = ("columns", "index", "attrs", *obj._metadata)
        frame = _by_attributes(b"frame", named, obj, *names)
        flag = obj.flags.allows_duplicate_labels
        return MerkleNode(b"DataFrame\0", (frame, flag, columns), ("", "", ".array"))
    if isinstance(obj, pd.Series):
        names = ("index", "attrs", *obj._metadata)
        series = _by_attributes(b"series", named, obj, *names)
        flag = obj.flags.allows_duplicate_labels
        return MerkleNode(b"Series\0", (series, flag, _column(obj)), ("", "", ".array"))
    if isinstance(obj, pd.Index):
        return _index(obj, named)
    if isinstance(obj, pd.api.extensions.ExtensionArray):
        return _extension_array(obj, named)
    if isinstance(obj, pd.api.extensions.ExtensionDtype):
        return _by_attributes(b"pandas dtype", named, obj, "name", *obj._metadata)
    return None


def _column(series: Any) -> Any:
    """Return the array of a Series; one that merely wraps NumPy's is unwrapped."""
    array = series.array
    return array.to_numpy() if type(array).__name__ == "NumpyExtensionArray" else array


def _index(index: Any, named: Any) -> MerkleNode:
    import pandas as pd

    if isinstance(index, pd.MultiIndex):
        return _by_attributes(b"MultiIndex", named, index, "levels", "codes", "names")
    if isinstance(index, pd.RangeIndex):
        return _by_attributes(b"RangeIndex", named, index, "start", "stop", "step", "names")
    values = (named, _column(index), index.names, getattr(index, "freq", None))
    return MerkleNode(b"Index\0", values, (".__class__", ".array", ".names", ".freq"))


def _extension_array(array: Any, named: Any) -> MerkleNode | None:
    import pandas as pd

    if isinstance(array, pd.arrays.IntegerArray | pd.arrays.FloatingArray | pd.arrays.BooleanArray):
        # Values under the mask are left over from computations.
        known = array.to_numpy(array.dtype.numpy_dtype, na_value=0)
        return MerkleNode(b"masked array\0", (named, array.dtype, array.isna(), known), ("",) * 4)
    if isinstance(array, pd.arrays.IntervalArray):
        return _by_attributes(b"intervals", named, array, "left", "right", "closed")
    if hasattr(array, "_pa_array"):  # Arrow: chunks and offsets are not content
        values = (named, array.dtype, array.to_numpy(dtype=object))
        return MerkleNode(b"arrow\0", values, ("",) * 3)
    if hasattr(array, "_ndarray"):  # dates, periods, str, and wrapped NumPy arrays
        return _by_attributes(b"values", named, array, "dtype", "_ndarray")
    return None


def _numba(obj: Any, cls: type) -> bytes | MerkleNode | None:
    """Return the parts of a compiled function: the Python function and the options.

    Machine code compiled so far does not count.
    """
    kinds = {base.__name__ for base in cls.__mro__ if base.__module__.startswith("numba")}
    named = _named(cls, "numba")
    if "Type" in kinds:
        return _numba_type(obj)
    if "Dispatcher" in kinds:
        fixed = None if obj._can_compile else sorted(map(str, obj.signatures))
        values = (named, obj.py_func, obj.targetoptions, obj.locals, fixed)
        labels = ("", ".py_func", ".targetoptions", ".locals", "")
        return MerkleNode(b"dispatcher\0", values, labels)
    if "DUFunc" in kinds:
        fixed = obj.types if obj._frozen else None
        options = obj._dispatcher.targetoptions
        values = (named, obj._dispatcher.py_func, options, obj.identity, fixed)
        return MerkleNode(b"ufunc\0", values, ("", ".py_func", ".targetoptions", ".identity", ""))
    if "GUFunc" in kinds:
        builder = obj.gufunc_builder
        fixed = None if obj._is_dynamic else obj.types
        values = (named, builder.py_func, builder.targetoptions, builder.signature, fixed)
        return MerkleNode(b"gufunc\0", values, ("", ".py_func", ".targetoptions", ".signature", ""))
    if "CFunc" in kinds:
        return MerkleNode(b"cfunc\0", (named, obj._pyfunc, str(obj._sig)), ("", ".__wrapped__", ""))
    return None


def _numba_type(numba_type: Any) -> bytes:
    text = str(numba_type)
    if "#" in text or "0x" in text:  # jitclasses and the types of functions
        raise NoContent(f"its name {text!r} has an address, which another process may reuse")
    return hashed(b"numba type\0", encoded((type_name(type(numba_type)), text)))


LIBRARIES: dict[str, Callable[[Any, type], bytes | MerkleNode | None]] = {
    "numpy": _numpy,
    "scipy": _scipy,
    "pandas": _pandas,
    "numba": _numba,
}


# -- contents of any object ---------------------------------------------------------------

_DASK = "__dask_tokenize__"  # those of xarray import dask, which need not be there
_HOOKS = ("__lazyflow_tokenize__", _DASK)


def contents(obj: Any) -> bytes | MerkleNode:
    """Return the parts of any object, or its digest.

    Raises
    ------
    NoContent
        The object has no content that could be compared.
    """
    cls = type(obj)
    rule = _EXACT.get(cls)
    if rule is not None:
        return rule(obj)
    for hook in _HOOKS:
        method = next((base.__dict__[hook] for base in cls.__mro__ if hook in base.__dict__), None)
        if method is not None:
            try:
                return _by_hook(obj, cls, hook, method)
            except ImportError:
                if hook != _DASK:
                    raise
                break
    for base in cls.__mro__:
        rule = _INHERITED.get(base)
        if rule is not None:
            return rule(obj)
        module = base.__module__
        library = LIBRARIES.get(module.partition(".")[0]) if type(module) is str else None
        content = None if library is None else library(obj, cls)
        if content is not None:
            return content
    return _reduced(obj, cls)


def _by_hook(obj: Any, cls: type, hook: str, method: Any) -> MerkleNode:
    try:
        value = method.__get__(obj, cls)()
    except Exception as error:
        error.add_note(f"This was raised by {type_name(cls)}.{hook}().")
        raise
    if type(value) is cls:  # its token would be made of a token that is made of ...
        raise TypeError(
            f"{type_name(cls)}.{hook}() returned another {cls.__name__}, so its content is still "
            "unknown. Return what results depend on, such as a tuple of attributes."
        )
    return MerkleNode(b"hook\0", (cls, value), (".__class__", f".{hook}()"))


def _reduced(obj: Any, cls: Any) -> bytes | MerkleNode:
    """Return the parts that pickle would keep: a callable, its arguments, a state, items."""
    if cls.__module__ == "itertools":
        raise NoContent("an iterator changes as it is read")
    try:
        # Packages register reducers of exceptions there that keep tracebacks.
        known = not issubclass(cls, BaseException)
        reducer = copyreg.dispatch_table.get(cls) if known else None
        value = cls.__reduce_ex__(obj, 4) if reducer is None else reducer(obj)
        if type(value) is str:
            return _global(obj, value)
        function, args, state, items, pairs, setter = (*value, None, None, None, None)[:6]
        items = None if items is None else list(items)
        pairs = None if pairs is None else [(key, value) for key, value in pairs]
        if not callable(function) or type(args) is not tuple:
            raise NoContent("its __reduce_ex__(4) gives no callable with a tuple of arguments")
    except NoContent:
        raise
    except Exception as error:
        raise NoContent from error
    if issubclass(cls, set | frozenset) and _pickles_as_sets_do(cls):
        args = nested(unordered(b"elements", args[0]))  # its list is in order of hash
    if pairs is not None and not issubclass(cls, OrderedDict):
        pairs = nested(mapping(b"pairs", [k for k, _ in pairs], [v for _, v in pairs]))
    state = None if state is None else _state(state)
    head = b"reduced\0"
    if function is _NEW_OBJECT and args:  # said of nearly every object: cls.__new__(cls, *args)
        head, function, args = b"object\0", args[0], args[1:]
    return MerkleNode(head, (function, args, state, items, pairs, setter), _REDUCED)


_NEW_OBJECT = object().__reduce_ex__(4)[0]
_REDUCED = (".__reduce_ex__(4)[0]", ".__reduce_ex__(4)[1]", "", "", "", ".__reduce_ex__(4)[5]")


def _pickles_as_sets_do(cls: Any) -> bool:
    if cls.__reduce_ex__ is not object.__reduce_ex__:
        return False
    return any(cls.__reduce__ is base.__reduce__ for base in (set, frozenset))


def _state(state: Any) -> Any:
    """Return an instance's ``__dict__`` or (``__dict__``, slots) by attribute name."""
    if type(state) is dict:
        return nested(mapping(b"state", list(state), list(state.values()), ".{}"))
    if type(state) is tuple and len(state) == 2 and type(state[1]) is dict:
        return MerkleNode(b"slots\0", [_state(each) for each in state], ("", ""))
    return MerkleNode(b"other state\0", (state,), (".__reduce_ex__(4)[2]",))


def _global(obj: Any, name: str) -> bytes:
    """Return the digest of an object that pickles as the name of a global, by that name."""
    module = pickle.whichmodule(obj, name)  # type: ignore[attr-defined]
    if resolve(module, name) is not obj:
        raise NoContent(f"it pickles as {module}.{name}, which is another object")
    return hashed(b"global\0", encoded((module, name)))


def _atom(value: Any) -> bytes:
    return hashed(b"atom\0", encoded(value))


def _text(value: str) -> bytes:
    return hashed_buffer(b"str\0", value.encode("utf-8", "surrogatepass"))


def _memory(view: memoryview) -> bytes:
    try:
        if "O" in view.format:
            raise NoContent("its bytes are addresses of objects")
        flat = view.cast("B") if view.c_contiguous and view.nbytes else view.tobytes()
        return hashed_buffer(b"memoryview\0" + encoded((view.format, view.shape)), flat)
    except ValueError as error:  # released
        raise NoContent from error


def _dict(value: Any) -> bytes | MerkleNode:
    return mapping(b"dict", list(value), list(value.values()))


def _builtin(function: Any) -> bytes | MerkleNode:
    """Return the parts or digest of a function written in C, or of such a method of an object."""
    owner = function.__self__
    if owner is None or type(owner) is types.ModuleType:
        module = function.__module__ or getattr(owner, "__name__", None)
        return hashed(b"builtin\0", encoded((module, function.__qualname__)))
    return MerkleNode(b"builtin method\0" + encoded(function.__name__), (owner,), (".__self__",))


def _module(module: types.ModuleType) -> bytes:
    name = module.__name__
    if type(name) is not str or sys.modules.get(name) is not module:
        raise NoContent("it is not in sys.modules, so that no name leads to it")
    return hashed(b"module\0", encoded(name))


def _enum_member(member: Any) -> MerkleNode:
    head = b"enum\0" + encoded(member._name_)
    return MerkleNode(head, (type(member), member._value_), (".__class__", ".value"))


def _no_object(_: object) -> bytes:
    raise NoContent("it is a bare object(), which differs from others by its identity alone")


def _attributes(tag: str, *names: str) -> Callable[[Any], MerkleNode]:
    """Return the rule for a type that consists of these attributes."""
    head = tag.encode() + b"\0"

    def rule(obj: Any) -> MerkleNode:
        return MerkleNode(head, [getattr(obj, name) for name in names], names, ".{}")

    return rule


def _cached_function(function: Any) -> MerkleNode:
    """Return the parts of a function under `functools.lru_cache`; cached values do not count."""
    children = (function.__wrapped__, function.cache_parameters())
    return MerkleNode(b"lru_cache\0", children, (".__wrapped__", ".cache_parameters()"))


_EXACT: dict[type, Callable[[Any], bytes | MerkleNode]] = {
    **dict.fromkeys((int, float, complex, bool, type(None), type(...)), _atom),
    type(NotImplemented): lambda value: hashed(b"NotImplemented\0"),
    object: _no_object,
    str: _text,
    bytes: lambda value: hashed_buffer(b"bytes\0", value),
    bytearray: lambda value: hashed_buffer(b"bytearray\0", value),
    memoryview: _memory,
    list: lambda value: sequence(b"list", value),
    tuple: lambda value: sequence(b"tuple", value),
    dict: _dict,
    set: lambda value: unordered(b"set", value),
    frozenset: lambda value: unordered(b"frozenset", value),
    slice: _attributes("slice", "start", "stop", "step"),
    type({}.keys()): lambda value: unordered(b"dict keys", value),
    type({}.items()): lambda value: unordered(b"dict items", value),
    type({}.values()): lambda value: sequence(b"dict values", list(value)),
    types.MappingProxyType: lambda value: MerkleNode(b"mappingproxy\0", (dict(value),), ("",)),
    types.FunctionType: lambda value: function_contents(value, contents),
    types.CodeType: code_contents,
    types.CellType: lambda value: closure_contents((value,)),
    types.MethodType: _attributes("method", "__func__", "__self__"),
    types.BuiltinFunctionType: _builtin,
    staticmethod: _attributes("staticmethod", "__func__"),
    classmethod: _attributes("classmethod", "__func__"),
    property: _attributes("property", "fget", "fset", "fdel"),
    # Its own reduce would count the lock that Python 3.11 keeps in it.
    functools.cached_property: _attributes("cached_property", "func", "attrname"),
    type(functools.lru_cache(len)): _cached_function,
}
_INHERITED: dict[type, Callable[[Any], bytes | MerkleNode]] = {
    type: lambda value: class_contents(value, contents),
    types.ModuleType: _module,
    enum.Enum: _enum_member,
}


# -- `tokenize` --------------------------------------------------------------------------------


_LENGTH = 32  # hex digits: 128 bits


def tokenize(*args: Any, strict: bool = False, **kwargs: Any) -> str:
    """Return a hash of the content of any objects, as 32 hex digits.

    A class declares the content of its instances by ``__lazyflow_tokenize__(self)``, which may
    return any object, or by ``__dask_tokenize__(self)``; the result is hashed with the class.

    Raises
    ------
    TypeError
        With ``strict=True``, for an object without content; the message has its type and path.

    Examples
    --------
    >>> tokenize([1, 2], {"a": 3}) == tokenize([1, 2], {"a": 3})
    True
    >>> tokenize([1, 2]) == tokenize((1, 2))
    False
    >>> tokenize({"step": (x for x in "ab")}, strict=True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    TypeError: args[0]['step'] is a generator, whose content can't be read for a token (...
    """
    names = sorted(kwargs)
    values = [*args, *[kwargs[name] for name in names]]
    labels = [*[f"args[{i}]" for i in range(len(args))], *[f"kwargs[{n!r}]" for n in names]]
    digest = sequence(b"call\0" + encoded((len(args), names)), values, labels, "{}")
    if isinstance(digest, MerkleNode):
        digest = merkle(digest, contents, _refuse if strict else _unique)
    return digest.hex()[:_LENGTH]


def unique_token() -> str:
    """Return a token that nothing else has or will have.

    >>> unique_token() == unique_token()
    False
    """
    return urandom(_LENGTH // 2).hex()


def _unique(obj: Any, error: NoContent, path: Callable[[], str]) -> bytes:
    # Not the id: it is given to the next object when this one dies. Nor a counter: forks share it.
    return hashed(b"unique\0", urandom(32))


def _refuse(obj: Any, error: NoContent, path: Callable[[], str]) -> bytes:
    cause = error.__cause__
    why = str(error) if cause is None else f"{type(cause).__name__}: {cause}"
    name = type_name(type(obj))
    raise TypeError(
        f"{path()} is a {name}, whose content can't be read for a token ({why}). Give the class "
        "that holds it a method __lazyflow_tokenize__(self) that returns what results depend on, "
        "or leave strict=True out to get a unique token."
    ) from cause
