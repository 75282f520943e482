"""`Array`: a chunked, lazy array that acts as NumPy's.

An array holds one expression (`_node`), or how it views another array (`_lens`, aliases.py). All
functions and operators return arrays of new expressions, by the table of dispatch.py; in-place
operations give the array another expression. `compute` and `persist` are in evaluation.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NoReturn, Self

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from lazyflow.api import evaluate, graph_pickle
from lazyflow.api.collection import Collection
from lazyflow.array.aliases import Aliased, field_seen, item_seen, transposed_seen
from lazyflow.array.as_objects import AsObjects, asked_by_sklearn
from lazyflow.array.chunks import Chunks
from lazyflow.array.dispatch import FunctionMethod, FunctionMethods, functions, of_numpy
from lazyflow.array.evaluation import Assembly, as_tasks, buffered, finished, kept, resolve_lengths
from lazyflow.array.foreign import defers, of_dask, plain, refuse_lazy
from lazyflow.array.names import missing
from lazyflow.array.nodes.align import SizesNeeded
from lazyflow.array.nodes.block_kinds import is_other_kind, kind_name
from lazyflow.array.nodes.expr import Expr, Index, LazyDtype, give_line
from lazyflow.array.nodes.indexing import keys
from lazyflow.array.nodes.sources import TaskBlocks, taken_in
from lazyflow.graph.kinds import FOREIGN, kinds
from lazyflow.graph.task import Task
from lazyflow.services import service


class Array(Collection, AsObjects, Aliased, FunctionMethods, NDArrayOperatorsMixin):
    """A chunked, lazy array, made by `from_array`, `ones`, ... and by operations on arrays.

    Attributes
    ----------
    shape, dtype, ndim, size, itemsize, nbytes, T, mT, real, imag
        As NumPy's; a length in `shape` is None if it depends on values that are not computed.
    chunks, numblocks, chunksize, npartitions
        The lengths of the chunks of each axis; their numbers by axis; the largest lengths; the
        number of all chunks.
    expr
        The expression that is computed.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.ones((5, 4), chunks=(2, 4))
    >>> x
    lazyflow.Array<full, shape=(5, 4), dtype=float64, chunksize=(2, 4)>
    >>> x.ndim, x.size, x.itemsize, x.nbytes, x.T.shape
    (2, 20, 8, 160, (4, 5))
    >>> x.chunks, x.numblocks, x.npartitions
    (((2, 2, 1), (4,)), (3, 1), 3)
    """

    __slots__ = ()
    __array_priority__ = 11

    def __init__(self, expr: Expr) -> None:
        give_line(expr)
        self._node, self._lens, self._order = expr, None, None

    # -- properties -------------------------------------------------------------------------

    @property
    def expr(self) -> Expr:
        """The expression that is computed."""
        return self._expr

    @property
    def shape(self) -> tuple[Any, ...]:
        """Lengths of the axes; None if unknown (computed if scikit-learn asks, which needs it)."""
        shape = self._expr.shape
        if None in shape and asked_by_sklearn():
            return self.with_known_sizes()._expr.shape
        return shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self._expr.dtype

    @property
    def chunks(self) -> Chunks:
        """Lengths of the chunks of each axis."""
        return self._expr.chunks

    @property
    def numblocks(self) -> Index:
        """Number of chunks of each axis."""
        return self._expr.numblocks

    @property
    def npartitions(self) -> int:
        """Number of chunks."""
        return prod(self._expr.numblocks)

    @property
    def chunksize(self) -> tuple[Any, ...]:
        """Lengths of the largest chunk."""
        return tuple([None if None in sizes else max(sizes) for sizes in self.chunks])

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._expr.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.with_known_sizes()._expr.size

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def T(self) -> Array:
        """The axes in the opposite order."""
        return self.transpose()

    @property
    def mT(self) -> Array:
        """The last two axes exchanged.

        Raises
        ------
        ValueError
            The array has fewer than two axes.
        """
        if self.ndim < 2:
            raise ValueError("matrix transpose with ndim < 2 is undefined")
        return self.transpose((*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))

    @property
    def real(self) -> Array:
        """The real parts."""
        return functions["real"](self)

    @property
    def imag(self) -> Array:
        """The imaginary parts."""
        return functions["imag"](self)

    @property
    def blocks(self) -> Any:
        """Blocks by number: ``x.blocks[0, 1:]``.

        >>> import lazyflow.array as la
        >>> la.arange(6, chunks=2).blocks[1:].compute()
        array([2, 3, 4, 5])
        """
        return functions["Blocks"](self)

    partitions = blocks

    @property
    def vindex(self) -> Any:
        """Points by coordinates: ``x.vindex[[1, 2], [3, 4]]``.

        >>> import lazyflow.array as la
        >>> la.arange(6, chunks=2).reshape(2, 3).vindex[[0, 1], [2, 0]].compute()
        array([2, 3])
        """
        return functions["vindex_of"](self)

    # -- sizes --------------------------------------------------------------------------------

    def with_known_sizes(self) -> Self:
        """Compute the unknown lengths, with only what they depend on; return the array itself.

        >>> import lazyflow.array as la
        >>> x = la.arange(6, chunks=2)
        >>> y = x[x > 2]
        >>> y.shape, y.with_known_sizes().shape
        ((None,), (3,))
        """
        if None in self._expr.shape:
            resolve_lengths(self)
        return self

    compute_chunk_sizes = with_known_sizes

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        n: int = self.with_known_sizes().shape[0]
        return n

    # -- views --------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Array:
        if keys.is_field(key):
            return field_seen(self, functions["field"](self, key)._node, key)
        if kinds[type(key)] == FOREIGN:
            key = Array(as_node(key))
        entries = keys.parse(key, self.shape)
        if not keys.is_basic(entries):
            return functions["getitem_by_arrays"](self, entries)
        try:
            node = keys.basic(self._expr, entries)
        except SizesNeeded:
            node = keys.basic(self.with_known_sizes()._expr, entries)
        return item_seen(self, node, entries, key)

    def __iter__(self) -> Iterator[Array]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def transpose(self, *axes: Any) -> Array:
        """Return the array with its axes in another order; reversed if none is given.

        >>> import lazyflow.array as la
        >>> x = la.ones((2, 3, 4))
        >>> x.transpose().shape, x.transpose(1, 0, 2).shape
        ((4, 3, 2), (3, 2, 4))
        """
        if len(axes) == 1 and (axes[0] is None or np.ndim(axes[0])):
            return transposed_seen(self, None if axes[0] is None else tuple(axes[0]))
        return transposed_seen(self, axes or None)

    def flatten(self, order: str = "C") -> Array:
        """Return the elements along one axis, as an independent array.

        >>> import lazyflow.array as la
        >>> la.ones((2, 3)).flatten().shape
        (6,)
        """
        return Array(functions["ravel"](self, order)._expr)

    # -- arithmetic -----------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, how: str, *inputs: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # for IPython and pytest
        if how != "__call__":
            return functions["ufunc_method"](ufunc, how, *inputs, **kwargs)
        name = "call_ufunc" if ufunc.signature is None else "call_gufunc"
        return functions[name](ufunc, inputs, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        found = of_numpy(func)
        if found is None:
            return functions["refuse_function"](func)
        return found(*args, **kwargs)

    def __eq__(self, other: Any) -> Any:
        return NotImplemented if defers(other) else functions["compared"](np.equal, self, other)

    def __ne__(self, other: Any) -> Any:
        if defers(other):
            return NotImplemented
        return functions["compared"](np.not_equal, self, other)

    def __pow__(self, other: Any) -> Any:
        return NotImplemented if defers(other) else functions["power_by"](self, other)

    # -- values ---------------------------------------------------------------------------------

    def compute(self, **options: Any) -> Any:
        """Return the result as a NumPy array; `options` are those of `lazyflow.compute`.

        >>> import lazyflow.array as la
        >>> (la.arange(3, chunks=2) * 2).compute()
        array([0, 2, 4])
        """
        __tracebackhide__ = True  # for IPython and pytest
        return evaluate.compute(self, **options)[0]

    def persist(self, **options: Any) -> Array:
        """Start computing it; return an equal array whose blocks are, or will be, kept.

        >>> import lazyflow.array as la
        >>> x = (la.arange(3, chunks=2) * 2).persist()
        >>> x.sum().compute(), x.max().compute()  # nothing is multiplied again
        (np.int64(6), np.int64(4))
        """
        found: Array = evaluate.persist(self, **options)[0]
        return found

    def visualize(self, filename: str | None = None, **options: Any) -> Any:
        """Draw the graph of its blocks; `options` are those of `lazyflow.visualize`."""
        return service("visualize")(self, filename=filename, **options)

    # -- as a collection ------------------------------------------------------------------------

    def __lazyflow_tasks__(self) -> Sequence[Task]:
        if isinstance(self._expr, TaskBlocks):
            return self._expr.tasks
        (self,) = type(self).__lazyflow_optimize__([self])
        return self.__lazyflow_tasks__()

    def __lazyflow_finalize__(self, values: list[Any]) -> Any:
        return finished(self._expr, values)

    def __lazyflow_rebuild__(self, tasks: Sequence[Task]) -> Self:
        return type(self)(kept(self._expr, tasks))

    def _finalizer(self) -> Any:
        assert isinstance(self._expr, TaskBlocks)
        return Assembly(self._expr)

    @property
    def __lazyflow_light__(self) -> bool:
        return isinstance(self._expr, TaskBlocks) and self._expr.light

    def __lazyflow_once__(self) -> Self:
        return type(self)(buffered(self._expr))

    @classmethod
    def __lazyflow_optimize__(cls, wanted: Sequence[Self], keep: bool = True) -> Sequence[Self]:
        return [cls(node) for node in as_tasks([x._expr for x in wanted], keep)]

    # -- what it shows --------------------------------------------------------------------------

    def __repr__(self) -> str:
        dtype = self._expr.known_dtype or "?"
        shape, chunk = [str(sizes).replace("None", "?") for sizes in (self.shape, self.chunksize)]
        known = self._expr.known_dtype is not None and self._expr.kind is not None
        kind = f", blocks={kind_name(self._expr.kind)}" if known else ""
        return f"lazyflow.Array<{self._expr.name}, {shape=!s}, {dtype=!s}, chunksize={chunk}{kind}>"

    def _repr_html_(self) -> str:
        html: str = service("array_html")(self)
        return html

    def __getattr__(self, name: str) -> NoReturn:
        words = "" if name.startswith("_") else missing(name, dir(type(self)))
        raise AttributeError(f"chunked arrays have no attribute {name!r}{words}")

    def __hash__(self) -> NoReturn:
        raise TypeError("unhashable type: 'Array'")

    def __reduce__(self) -> Any:
        dtype = self.dtype  # before there are tasks, which check what they know
        kind = self._expr.kind
        (self,) = type(self).__lazyflow_optimize__([self])
        data = graph_pickle.packed_together(self.__lazyflow_tasks__())
        return _from_tasks, (data, dtype, self.chunks, self._expr.memory_order, kind)

    # -- methods that are functions too, beside `FunctionMethods` ---------------------------------

    argsort = FunctionMethod("argsort")
    argtopk = FunctionMethod("argtopk")
    choose = FunctionMethod("choose")
    compress = FunctionMethod("compress_method")
    map_overlap = FunctionMethod("map_overlap_of")
    moment = FunctionMethod("moment")
    searchsorted = FunctionMethod("searchsorted")
    shuffle = FunctionMethod("shuffle")
    store = FunctionMethod("store")
    to_delayed = FunctionMethod("to_delayed")
    to_hdf5 = FunctionMethod("to_hdf5_method")
    to_zarr = FunctionMethod("to_zarr")
    todense = FunctionMethod("todense")
    topk = FunctionMethod("topk")
    trace = FunctionMethod("trace")
    view = FunctionMethod("view_as")
    __setitem__ = FunctionMethod("set_item")

    def __imatmul__(self, other: Any) -> Any:
        if not self.ndim or np.ndim(other) < 2:
            raise ValueError(
                "inplace matrix multiplication requires the first operand to have at least one and "
                "the second at least two dimensions."
            )
        return super().__imatmul__(other)


def _from_tasks(
    data: bytes, dtype: np.dtype[Any], chunks: Chunks, order: tuple[int, ...], kind: Any = None
) -> Array:
    found = dtype if kind is None else LazyDtype.like(kind)
    return Array(TaskBlocks(graph_pickle.unpacked_together(data), found, chunks, order=order))


def as_node(x: Any) -> Expr:
    """Return the expression of an array or of anything that NumPy makes one of."""
    if isinstance(x, Array):
        return x._expr
    refuse_lazy(x)
    if is_other_kind(x):
        found: Expr = functions["from_array"](x, -1).expr
        return found
    if kinds[type(x)] == FOREIGN and (task := service("dask_task")(x)) is not None:
        return of_dask(x, task)
    return taken_in(plain(np.asanyarray(x)), x)
