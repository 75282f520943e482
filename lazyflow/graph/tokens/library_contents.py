"""What objects of NumPy, SciPy, pandas and Numba consist of, for `lazyflow.graph.tokens.tokenize`.

Each rule takes an object and its class and returns parts, a digest, or None where the object's
``__reduce_ex__`` tells its content well enough. A rule is only called for a class that its library
is an ancestor of, so importing the library here loads nothing.

Caches never count (``_cache`` of pandas, ``has_sorted_indices`` of SciPy, compiled signatures of
Numba, the values under the mask of a pandas array), nor does how an array lies in memory. Bytes
that hold no value (the padding of records and of long doubles) are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from lazyflow.graph.tokens.containers import encoded, mapping, nested
from lazyflow.graph.tokens.digests import Digest, MerkleNode, NoContent, hashed, type_name

_SIMPLE = frozenset("?bBhHiIlLqQefdgFDGSUmM")  # dtype characters that dtype.str tells all about
_BLOCK = 1 << 16  # elements of a strided array that are copied at a time
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
        # What lies under the mask is left over from computations.
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

    What was compiled so far does not count.
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
