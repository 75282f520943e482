"""The pickler of everything that passes between processes.

It does what `pickle` does, and more: functions and classes that can't be imported travel by value
(by cloudpickle); arrays leave their memory out of the stream, contiguous; their read-only mark
belongs to the array and not to the memory, so the owner of the memory can lift it without a copy;
and context variables keep their identity.

cloudpickle is a second pickler that reduces single objects. It is imported for the first object
that needs it: that takes 20 ms, which most workers need not spend.

State of the process; any thread adds entries, without a lock::

    _names :: {ContextVar: (module, name)}     where a variable was found
    _keys, _by_key                             random keys of the variables that no module has
    _reducers :: TypeTable                     how objects of a type are reduced

Beside it, `_owner` tells each thread whether it opens a result for its owner (`loads_owned`).
"""

from __future__ import annotations

import copyreg
import mmap
import os
import pickle
import sys
import threading
from collections.abc import Callable
from contextvars import Context, ContextVar
from functools import cached_property, lru_cache
from io import BufferedRandom, BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from pickle import PicklingError
from types import CodeType, FunctionType, ModuleType
from typing import Any, NoReturn

from lazyflow.graph.guards import base_of
from lazyflow.graph.kinds import TypeTable
from lazyflow.store.pickling.classes import (
    class_by_value,
    is_by_value,
    names_itself,
    variable_of_main,
)
from lazyflow.store.pickling.frames import reducer_of_table
from lazyflow.system import mapped_path

# -- values that lie in files, sent to other processes of this machine by path ------------
#
# A part of a file that is mapped (`numpy.memmap`, and views of one) is mapped there as well, for
# reading only. Later writes of this process by mode "r+" or "w+" are seen there, since both map the
# same pages. Arrays of mode "c", whose edits are this process's own, and of files that were removed
# or replaced, are copied. Objects of h5py are opened again, by mode "r".


def mapped_part(array: Any) -> Any:
    """Return how an array in a mapped file is made in another process; None for other arrays."""
    np = sys.modules["numpy"]
    owner = array
    while type(owner) in (np.ndarray, memoryview):
        owner = base_of(owner)
    if type(owner) is not np.memmap or owner.mode == "c" or type(owner._mmap) is not mmap.mmap:
        return None
    if owner.filename is None or not array.size:
        return None
    begin = np.frombuffer(owner._mmap, np.uint8).__array_interface__["data"][0]
    path = mapped_path(begin)
    if path != os.path.realpath(owner.filename):  # it was removed or replaced
        return None
    low, high = np.lib.array_utils.byte_bounds(array)
    first = owner.offset - owner.offset % mmap.ALLOCATIONGRANULARITY  # of the map, in the file
    start = array.__array_interface__["data"][0] - low
    return part_of_file, (
        path, first + low - begin, high - low, start, array.dtype, array.shape, array.strides,
        type(array) is np.memmap,
    )


def part_of_file(
    path: str, offset: int, size: int, start: int, dtype: Any, shape: Any, strides: Any,
    is_memmap: bool, mode: Any = "r",
) -> Any:
    """Return an array whose memory is a part of a file."""
    import numpy as np

    held: Any = np.memmap(path, np.uint8, mode, offset, (size,))
    part: Any = np.ndarray(shape, dtype, held, start, strides)
    if is_memmap:
        part = part.view(np.memmap)
        for name in ("_mmap", "filename", "offset", "mode"):
            setattr(part, name, getattr(held, name))
    return part


def reduce_h5py(value: Any) -> Any:
    """Return how a dataset, group or file of h5py is opened in another process.

    Raises
    ------
    PicklingError
        The object has no name in its file, or its file has no path.
    """
    file, name = value.file, value.name
    path = os.path.abspath(os.fsdecode(file.filename))
    if name is None or file.driver in ("core", "fileobj") or not os.path.exists(path):
        raise PicklingError(
            f"another process can't open {value!r}: h5py objects are sent as a path and a name, "
            'and it has none. Write it to a file and close that, or use scheduler="threads"'
        )
    if file.mode != "r":
        file.flush()
    return open_h5py, (path, name, value == file)


def open_h5py(path: str, name: str, is_file: bool) -> Any:
    """Open an HDF5 file to be read, and return the object of a name in it."""
    import h5py

    try:
        file = h5py.File(path, "r", locking=False)
    except OSError as error:
        error.add_note(
            "Another process got the path of this file and opens it with mode 'r'. Close it where "
            "it is open for writing (libver='latest' marks it as such)."
        )
        raise
    return file if is_file else file[name]


# -- context variables in other processes: one variable stays one variable ----------------
#
# A variable in a module's namespace travels as the names of the module and the variable. A variable
# of `__main__` or of no module gets a key from the first process that sends it, and every process
# remembers which of its variables has which key, so that a variable that returns is the one that
# left.


Var = ContextVar[Any]

_names: dict[Var, tuple[str, str]] = {}  # module, and name in it
_keys: dict[Var, str] = {}
_by_key: dict[str, Var] = {}


def reduce_variable(variable: Var) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the function that finds a variable in another process, and its arguments."""
    key = _keys.get(variable)
    if key is None:
        name = _names.get(variable)
        if name is None or not _holds(*name, variable):
            name = _name_of(variable)
        if name is not None:
            _names[variable] = name
            return getattr, (sys.modules[name[0]], name[1])
        key = os.urandom(16).hex()
        key = _keys.setdefault(variable, key)
        _by_key[key] = variable
    try:
        default = (Context().run(variable.get),)
    except LookupError:
        return _known_by_key, (key, variable.name)
    return _known_by_key, (key, variable.name, *default)


def _holds(module: str, name: str, variable: Var) -> bool:
    return getattr(sys.modules.get(module), "__dict__", {}).get(name) is variable


def _name_of(variable: Var) -> tuple[str, str] | None:
    main = sys.modules.get("__main__")
    for module, held in list(sys.modules.items()):
        # A module without a spec was made by hand: others can't import it. `__main__` is another
        # module in every process.
        if held is main or getattr(held, "__spec__", None) is None:
            continue
        for name, value in list(getattr(held, "__dict__", {}).items()):
            if value is variable and type(name) is str:
                return module, name
    return None


def _known_by_key(key: str, name: str, *default: Any) -> Var:
    variable = _by_key.get(key)
    if variable is None:
        new: Var = ContextVar(name, default=default[0]) if default else ContextVar(name)
        variable = _by_key.setdefault(key, new)
        _keys[variable] = key
    return variable


# -- the pickler --------------------------------------------------------------------------

PROTOCOL = 5  # of pickle: the first with buffers out of band


class _PieceWriter:
    """A file that keeps the output of a pickler as pieces, large bytes without a copy."""

    __slots__ = ("pieces", "write")

    def __init__(self) -> None:
        self.pieces: list[Any] = []
        self.write: Callable[[Any], None] = self.pieces.append


class Pickler(pickle.Pickler):
    """Pickles one value.

    Parameters
    ----------
    least : int
        Buffers of this many bytes or more are kept out of the stream.
    by_path : bool
        Arrays in a mapped file travel without their memory, to be mapped again.

    Attributes
    ----------
    pieces : list of bytes
        The stream.
    buffers : list of pickle.PickleBuffer
        The buffers that were kept out of the stream.
    named : list of function
        Functions that were pickled by name.
    handles : list
        Actors that are kept for as long as the stream may be read: see ``_lazyflow_lent`` of their
        handles.
    """

    def __init__(self, least: int, by_path: bool = False) -> None:
        writer = _PieceWriter()
        buffers: list[pickle.PickleBuffer] = []

        def keep_large(buffer: pickle.PickleBuffer) -> bool:  # a method would make a cycle
            if buffer.raw().nbytes < least:
                return True  # in the stream
            buffers.append(buffer)
            return False

        super().__init__(writer, PROTOCOL, buffer_callback=keep_large)
        self.pieces = writer.pieces
        self.least = least
        self.by_path = by_path
        self.buffers = buffers
        self.named: list[FunctionType] = []
        self.handles: list[Any] = []
        self._cloud: Any = None

    def reset(self) -> None:
        """Drop the output so far, to begin again after a failure."""
        self.clear_memo()
        for kept in (self.pieces, self.buffers, self.named, self.handles):
            kept.clear()

    def reducer_override(self, obj: Any) -> Any:
        """Return how to reduce an object; `pickle` asks for each that is of no basic type."""
        reduce = _reducers[type(obj)]
        return NotImplemented if reduce is None else reduce(self, obj)

    def by_cloudpickle(self, obj: Any) -> Any:
        """Return how cloudpickle reduces a function or class."""
        from cloudpickle import cloudpickle

        if self._cloud is None:
            self._cloud = cloudpickle.Pickler(_PieceWriter(), PROTOCOL)
        try:
            is_sent = _is_nowhere_else(sys.modules.get(obj.__module__))
            if isinstance(obj, type):
                how = None if is_sent else self._cloud.reducer_override(obj)
                return class_by_value(obj) if is_sent or is_by_value(how) else how
            if is_sent:
                return self._cloud._dynamic_function_reduce(obj)
            return self._cloud.reducer_override(obj)
        finally:  # weak references to code with a callback in Python: see finalizers.py
            cloudpickle._extract_code_globals_cache.clear()


def _is_nowhere_else(module: Any) -> bool:
    """Tell whether a module was not imported, but made by `runpy.run_path`, for example."""
    return (
        type(module) is ModuleType
        and getattr(module, "__spec__", None) is None  # debuggers empty the dict of `__main__`
        and getattr(module, "__name__", "") not in ("__main__", "builtins")
    )


def is_importable(obj: Any) -> bool:
    """Tell whether a function or class can be imported by its name, ``__main__`` aside.

    Where it can't, cloudpickle has to decide.
    """
    module, name = obj.__module__, obj.__qualname__
    if type(module) is not str or type(name) is not str or module == "__main__":
        return False
    cloudpickle = sys.modules.get("cloudpickle")
    registry = getattr(cloudpickle, "list_registry_pickle_by_value", None)
    if registry is not None and registry():  # None while another thread imports it
        return False
    attribute: Any = sys.modules.get(module)
    if _is_nowhere_else(attribute):
        return False
    for part in name.split("."):
        attribute = getattr(attribute, part, None)
    return attribute is obj


def _function(pickler: Pickler, function: FunctionType) -> Any:
    how = NotImplemented if is_importable(function) else pickler.by_cloudpickle(function)
    if how is NotImplemented:
        pickler.named.append(function)
    return how


def _code(pickler: Pickler, code: CodeType) -> Any:
    """Reduce code with its file: cloudpickle 3.1.3 leaves it out, and errors would show no line."""
    from cloudpickle import cloudpickle

    return _code_of_file, (code.co_filename, *cloudpickle._code_reduce(code))


def _code_of_file(file: str, make: Callable[..., CodeType], args: tuple[Any, ...]) -> CodeType:
    return make(*args).replace(co_filename=file)


def _class(pickler: Pickler, cls: type) -> Any:
    return NotImplemented if is_importable(cls) else pickler.by_cloudpickle(cls)


def _cached(pickler: Pickler, function: Any) -> Any:
    """Reduce a function of `functools.lru_cache` that can't be imported: its cache starts empty."""
    if is_importable(function):
        return NotImplemented
    state = {name: each for name, each in vars(function).items() if name not in _OF_CACHES}
    return _with_cache, (function.__wrapped__, function.cache_parameters()), state


_OF_CACHES = ("__wrapped__", "cache_parameters")


def _with_cache(function: Any, parameters: dict[str, Any]) -> Any:
    return lru_cache(**parameters)(function)


def _vectorized(pickler: Pickler, function: Any) -> Any:
    """Reduce an `np.vectorize` without the ufuncs that its calls have made: they can't travel."""
    return copyreg.__newobj__, (type(function),), {**vars(function), "_ufunc": {}}  # type: ignore[attr-defined]


def _property(pickler: Pickler, prop: cached_property[Any]) -> Any:
    """Reduce a `functools.cached_property` without the lock that some versions have."""
    return cached_property, (prop.func,), {"attrname": prop.attrname}


def _view(pickler: Pickler, view: memoryview) -> Any:
    """Reduce a memoryview, which cloudpickle turns into bytes."""
    data = view.tobytes()
    parts = data if view.readonly else bytearray(data), view.format, view.shape
    try:
        view_of(*parts)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"a memoryview of format {view.format!r} and shape {view.shape} can't be pickled "
            f"({error}): pass the object that it views"
        ) from error
    return view_of, parts


def view_of(data: Any, form: Any, shape: Any) -> memoryview:
    """Return a memoryview of these bytes."""
    view = memoryview(data)
    return view.cast(form) if len(shape) == 1 else view.cast(form, shape)


def _text_file(pickler: Pickler, file: TextIOWrapper) -> Any:
    """Refuse an open file, whose text cloudpickle would send; reduce stdout, stderr to names."""
    if file in (sys.stdout, sys.stderr):
        return getattr, (sys, "stdout" if file is sys.stdout else "stderr")
    return _file(pickler, file)


def _file(pickler: Pickler, file: Any) -> NoReturn:
    raise TypeError(
        f"an open file belongs to its process ({file!r}): pass its path and open it in the task, "
        "or pass its content"
    )


class _Memory:
    """A contiguous array's memory as plain bytes, without the read-only mark.

    Nothing writes to it here. But a mark on the memory would stay for ever, and a caller would have
    to copy a result that arrived without a copy, only because tasks see each other's arrays
    read-only. It has plain bytes because numpy does not offer dates as a buffer.
    """

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (owner.__array_interface__["data"][0], False),
            "shape": (owner.nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


def _array(pickler: Pickler, array: Any) -> Any:
    dtype = array.dtype
    if dtype.hasobject:
        return NotImplemented
    flags, shape = array.flags, array.shape
    order = "F" if flags.fnc else "C"
    memory: Any
    if array.nbytes < pickler.least:
        memory = bytearray(array.tobytes(order))
    else:
        np = sys.modules["numpy"]
        if pickler.by_path and (part := mapped_part(array)) is not None:
            return part
        if not flags.forc:
            array = np.ascontiguousarray(array)
        memory = pickle.PickleBuffer(np.asarray(_Memory(array)))
    if dtype.isbuiltin == 1 and dtype.metadata is None:
        dtype = dtype.str  # pickling a dtype takes several times as long as all else
    if flags.writeable:
        return array_from, (memory, dtype, shape, order)
    return array_from, (memory, dtype, shape, order, False)


_owner = threading.local()


def loads_owned(load: Callable[[], Any]) -> Any:
    """Return the result of `load`, which unpickles, with writable arrays for the receiver."""
    _owner.is_opening = True
    try:
        return load()
    finally:
        _owner.is_opening = False


def _memmap(pickler: Pickler, array: Any) -> Any:
    part = None
    if pickler.by_path and array.nbytes >= pickler.least:
        part = mapped_part(array)
    # NumPy's own way loses the order of bytes, and that the array was read-only.
    return part or (as_memmap, (array.view(sys.modules["numpy"].ndarray),))


def as_memmap(array: Any) -> Any:
    """Return an array as a `numpy.memmap` of no file, as a copy of one is."""
    import numpy as np

    return array.view(np.memmap)


def array_from(
    buffer: Any, dtype: Any, shape: tuple[int, ...], order: Any, writeable: bool = True
) -> Any:
    """Return an array in the memory of ``buffer``."""
    import numpy as np

    array = np.ndarray(shape, dtype, buffer, order=order)
    if not writeable and not getattr(_owner, "is_opening", False):
        array.flags.writeable = False
    return array


def _number(pickler: Pickler, number: Any) -> Any:
    return type(number), (number.item(),)


Reduce = Callable[[Pickler, Any], Any]


def _reducer_for(cls: type) -> Reduce | None:
    """Return the reducer of a type's objects, None where `pickle` itself reduces them."""
    if issubclass(cls, type):
        return _class
    flat = getattr(cls, "_lazyflow_flat", None)
    if flat is not None:  # graphs, whose `__reduce__` would start a pickling inside this one
        return lambda pickler, obj: flat(obj)
    lent = getattr(cls, "_lazyflow_lent", None)
    if lent is not None:
        return lambda pickler, obj: lent(obj, pickler.handles)
    module = cls.__module__
    if type(module) is str and module.startswith("h5py._hl."):
        return lambda pickler, obj: reduce_h5py(obj) if hasattr(obj, "file") else NotImplemented
    if module == "pyarrow.lib" or (type(module) is str and module.startswith("polars.")):
        return reducer_of_table(cls)
    if module == "numpy":
        return _reducer_for_numpy(cls)
    if type(module) is str and module.partition(".")[0] in sys.stdlib_module_names:
        import cloudpickle

        reduce = cloudpickle.Pickler.dispatch_table.get(cls)
        if reduce is not None and reduce is not copyreg.dispatch_table.get(cls):  # pickle's own
            return lambda pickler, obj: reduce(obj)
    if names_itself(cls) and not is_importable(cls):
        return lambda pickler, obj: variable_of_main(obj, PROTOCOL)
    return None


#: Scalars that a Python number represents exactly.
_NUMBERS = frozenset({"bool", "float32", "float64", "complex128"}) | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def _reducer_for_numpy(cls: type) -> Reduce | None:
    numpy: Any = sys.modules["numpy"]
    if cls is numpy.ndarray:
        return _array
    if cls is numpy.memmap:
        return _memmap
    if cls is numpy.vectorize:
        return _vectorized
    is_number = cls.__name__ in _NUMBERS and getattr(numpy, cls.__name__, None) is cls
    return _number if is_number else None


# Types that reduce themselves (None) are here to spare the import of cloudpickle.
_FIXED: dict[type, Reduce | None] = {
    FunctionType: _function,
    CodeType: _code,
    type(lru_cache(len)): _cached,
    cached_property: _property,
    ContextVar: lambda pickler, variable: reduce_variable(variable),
    type: _class,
    memoryview: _view,
    TextIOWrapper: _text_file,
    BufferedReader: _file,
    BufferedWriter: _file,
    BufferedRandom: _file,
    FileIO: _file,
    type(len): None,
    complex: None,
    slice: None,
    range: None,
}
_reducers = TypeTable(_reducer_for, _FIXED)
