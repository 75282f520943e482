"""`Delayed`: a task that looks like its result.

Operators, attributes, items and calls make further tasks. Operations that need the value at once
(truth, iteration, assignment) raise a TypeError that names the fix.

Lazy values are collections of dask, too: `DaskCollection` has the methods that `dask.compute`,
`dask.persist` and others call. `lazyflow.interop.dask_collections` does the work, and imports dask
only then.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any, Generic, TypeVar

from lazyflow.api import evaluate, graph_pickle, waiting
from lazyflow.api.evaluate import RunOptions
from lazyflow.graph import plan
from lazyflow.graph.binding import new_leaf, new_task
from lazyflow.graph.items import annotated_class, annotated_length, items_of
from lazyflow.graph.options import (
    DEFAULT,
    HIDDEN_OPERATOR,
    NAMED,
    OPERATOR,
    Options,
    annotation,
)
from lazyflow.graph.task import HELD, VALUE, Task, attribute_of, place_text, task_name
from lazyflow.schedulers.core.errors.words import call_text, leaf_text, on_messages, on_pages
from lazyflow.services import service

# -- as dask's collections ---------------------------------------------------------------------


def _asked_for_arrays() -> bool:
    """Tell whether the caller would take an array with these methods for one of dask.

    Such callers find lazyflow's arrays by NumPy's protocols, and xarray by its chunk manager.
    """
    frame: Any = sys._getframe(2)
    if frame.f_code.co_name == "is_dask_collection" and frame.f_globals["__name__"] == "dask.base":
        frame = frame.f_back
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith(("xarray.", "flox.", "dask.array."))


class DaskCollection:
    """The part of lazy values that speaks dask's protocol of collections."""

    __slots__ = ()

    @property
    def __dask_graph__(self) -> Callable[[], Any]:
        if _asked_for_arrays():
            raise AttributeError("lazyflow's lazy values are no arrays of dask")
        return lambda: service("dask_parts")(self).graph

    def __dask_keys__(self) -> list[Any]:
        keys: list[Any] = service("dask_parts")(self).keys
        return keys

    def __dask_postcompute__(self) -> tuple[Any, tuple[Any, ...]]:
        function, *arguments = service("dask_parts")(self).joins(self)
        return function, tuple(arguments)

    def __dask_postpersist__(self) -> tuple[Any, tuple[Any, ...]]:
        function, *arguments = service("dask_parts")(self).rebuilds(self)
        return function, tuple(arguments)

    @property
    def __dask_optimize__(self) -> Any:
        return service("dask_parts")(self).optimize

    @property
    def __dask_scheduler__(self) -> Any:
        return service("dask_parts")(self).get


# -- `Delayed` ---------------------------------------------------------------------------------


T_co = TypeVar("T_co", covariant=True)

# -- operations that need the value now: they raise, and the error says what to type instead


def advice(operation: str, instead: str) -> TypeError:
    """Return the error for an operation that needs the value."""
    return TypeError(f"{operation} of a lazy value is not known before it is computed. {instead}")


def dtype_advice() -> TypeError:
    """Return the error for a use as a dtype."""
    return advice("The dtype", "Write np.dtype(x.dtype.compute())")


class NeedsValue:
    """The part of `Delayed` that refuses operations which need the value."""

    __slots__ = ()

    def __bool__(self) -> bool:
        raise advice(
            "The truth", "Write x.compute() in the condition, or put the 'if' inside a delayed "
            "function; where sorted, max, 'in' or a library asked for it, call that lazily: "
            "delayed(max)(a, b). To compare two lazy values for identity use 'is'."
        )

    def __contains__(self, item: Any) -> bool:
        raise advice("The content", "Write: delayed(operator.contains)(x, item)")

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "lazy values can't be changed: x[...] = value would change what other tasks see. "
            "Return a changed copy from a delayed function instead."
        )

    def __delitem__(self, index: Any) -> None:
        self.__setitem__(index, None)

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError(
            f"lazy values can't be changed: x.{name} = value would change what other tasks see. "
            "Return a changed object from a delayed function instead."
        )

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __index__(self) -> int:
        raise advice("The number", "Write x.compute(), or call lazily: delayed(range)(x)")

    def __float__(self) -> float:
        raise advice("The number", "Write float(x.compute()), or delayed(float)(x)")

    def __int__(self) -> int:
        raise advice("The number", "Write int(x.compute()), or delayed(int)(x)")

    def __complex__(self) -> complex:
        raise advice("The number", "Write complex(x.compute()), or delayed(complex)(x)")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if getattr(dtype, "char", dtype) in ("O", object):  # for an array of lazy values
            cells = sys.modules["numpy"].empty(1, object)
            cells[0] = self
            return cells.reshape(())
        raise advice("The array", "Write np.asarray(x.compute()), or delayed(np.asarray)(x)")

    @property
    def __numpy_dtype__(self) -> Any:
        raise dtype_advice()


class _Method:
    """Calls the method of this name of its first argument."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(obj, self.name)(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Method, (self.name,)


def _call(func: Any, /, *args: Any, **kwargs: Any) -> Any:
    if not callable(func):
        raise TypeError(
            f"a lazy value was called, but it is a {type(func).__name__}, not a function. Did you "
            "write delayed(f(x)) for delayed(f)(x)?"
        )
    return func(*args, **kwargs)


_call.__name__ = "call"  # for errors


def _unary(func: Callable[[Any], Any]) -> Callable[[Delayed], Delayed]:
    def method(self: Delayed) -> Delayed:
        return new_task(Delayed, func, (self,), None, OPERATOR, depth=2)

    return method


def _binary(func: Callable[[Any, Any], Any]) -> Callable[[Delayed, Any], Delayed]:
    def method(self: Delayed, other: Any) -> Delayed:
        return _apply(func, self, other)

    return method


def _reflected(func: Callable[[Any, Any], Any]) -> Callable[[Delayed, Any], Delayed]:
    def method(self: Delayed, other: Any) -> Delayed:
        return _apply(func, other, self)

    return method


def _apply(func: Callable[[Any, Any], Any], one: Any, other: Any) -> Delayed:
    """Return the task of a binary operator; quickly when both sides are Delayed."""
    if type(one) is not Delayed or type(other) is not Delayed or annotation.get() is not None:
        return new_task(Delayed, func, (one, other), None, OPERATOR, depth=3)
    task = object.__new__(Task)
    task._func = func
    task._args = task._inputs = (one, other)
    task._bind = None
    is_shown = one._options.hide is not True and other._options.hide is not True
    task._options = OPERATOR if is_shown else HIDDEN_OPERATOR
    frame = sys._getframe(2)
    task._code = frame.f_code
    task._lasti = frame.f_lasti
    high, low = one._height, other._height
    task._height = (high if high > low else low) + 1
    task._key = None
    task.__class__ = Delayed
    return task  # type: ignore[return-value]


class Delayed(NeedsValue, DaskCollection, Task, Generic[T_co]):
    """The lazy result of a call.

    Calling a function marked with `delayed` returns one. It behaves like its future value:
    operators, attributes, method calls, ``[...]`` and NumPy's ufuncs return more lazy values.
    In annotations write the type of the value: ``Delayed[int]``.

    Examples
    --------
    >>> from lazyflow import delayed
    >>> x = delayed(divmod)(17, 5)
    >>> x
    <Delayed divmod(17, 5)>
    >>> (x[0] + 1).compute()
    4
    """

    __slots__ = ()

    # -- evaluation -------------------------------------------------------------------------

    def compute(self, **options: Any) -> T_co:
        """Compute the value and return it; options and errors are those of `lazyflow.compute`.

        Examples
        --------
        >>> from lazyflow import delayed
        >>> delayed(sum)([1, 2, 3]).compute(scheduler="sync")
        6
        """
        __tracebackhide__ = True  # for IPython and pytest
        values, error = evaluate.evaluate((self,), RunOptions.of("compute", options))
        if error is not None:
            try:
                raise error
            finally:
                del error
        return values[0]

    def persist(self, **options: Any) -> Delayed[T_co]:
        """Start computing; return a lazy value without its graph, see `lazyflow.persist`.

        Examples
        --------
        >>> from lazyflow import delayed
        >>> x = delayed(sum)([1, 2, 3]).persist()
        >>> (x + 1).compute()
        7
        """
        return evaluate.persist(self, **options)[0]

    def cancel(self, *, force: bool = False) -> bool:
        """Cancel a persisted value; return False if it was computed already.

        Tasks that only this value needs are not started. A running task continues to its end, and
        its result is ignored. Using the value then raises `Cancelled`. On processes
        ``force=True`` ends the worker that runs the value's task, even while it is in C
        code; other results of that worker are computed again.

        Raises
        ------
        TypeError
            The value is not persisted.
        ValueError
            With ``force=True``, if the scheduler can't end tasks (sync, threads and executors).

        Examples
        --------
        >>> from threading import Event
        >>> from lazyflow import delayed
        >>> event = Event()
        >>> x = delayed(event.wait)().persist()
        >>> x.cancel()
        True
        >>> event.set()
        """
        return waiting.future_of(self).cancel(force)

    def visualize(self, filename: str | None = None, **options: Any) -> Any:
        """Draw the graph; see `lazyflow.visualize`.

        Examples
        --------
        >>> from lazyflow import delayed
        >>> (delayed(abs)(-1) + 1).visualize()
        <Picture: 2 nodes, 1 edge, svg of 997 characters>
        """
        return service("visualize")(self, filename=filename, **options)

    @property
    def key(self) -> str:
        """The name of the task: unique, or a hash of its content with ``pure=True``.

        Examples
        --------
        >>> from lazyflow import delayed
        >>> f = delayed(abs, pure=True)
        >>> f(-1).key == f(-1).key, f(-1).key == f(-2).key
        (True, False)
        """
        return plan.key_of(self)

    def __await__(self) -> Generator[Any, None, T_co]:
        return waiting.awaited(self).__await__()

    # -- more tasks -------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Delayed:
        if name.startswith("_"):
            raise AttributeError(
                f"lazy values have no attribute {name!r}; to get one of that name from the result "
                f"write delayed(getattr)(x, {name!r})"
            )
        if name == "dtype" and isinstance(self._func, operator.attrgetter):
            raise dtype_advice()  # numpy before 2.4 asks for x.dtype.dtype and so on
        if name == "dask":  # of dask's lazy values: the graph
            raise AttributeError(
                "lazy values have no graph to look into as x.dask: x.visualize() draws it. To get "
                "an attribute of that name from the result write delayed(getattr)(x, 'dask')"
            )
        return new_task(
            _Attribute, operator.attrgetter(name), (self,), None, OPERATOR, depth=2
        )

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Delayed:
        """Return ``np.sin(x)``, ``array + x`` and ``array += x`` as calls."""
        operator_like = method == "__call__" and not kwargs and not isinstance(inputs[0], Delayed)
        in_place = operator_like and out is not None and len(out) == 1 and out[0] is inputs[0]
        if method == "at" or (out is not None and not in_place):
            raise TypeError(
                f"np.{ufunc.__name__} of a lazy value is computed later, so it can't write into an "
                f"array now. Write: y = np.{ufunc.__name__}(...) without out="
            )
        func = ufunc if method == "__call__" else getattr(ufunc, method)
        options = OPERATOR if ufunc.nout == 1 else Options(nout=ufunc.nout)
        return new_task(Delayed, func, inputs, kwargs, options, depth=2)

    def __getitem__(self, index: Any) -> Delayed:
        return new_task(
            Delayed, operator.getitem, (self, index), None, OPERATOR, depth=2
        )

    def __call__(self, /, *args: Any, dask_key_name: str | None = None, **kwargs: Any) -> Delayed:
        return _called(_call, (self, *args), kwargs, dask_key_name)

    def __pow__(self, other: Any, modulus: Any = None) -> Delayed:
        if modulus is None:
            return _apply(operator.pow, self, other)
        return new_task(Delayed, pow, (self, other, modulus), None, OPERATOR, depth=2)

    def __divmod__(self, other: Any) -> Delayed:
        return new_task(Delayed, divmod, (self, other), None, OPERATOR.replace(nout=2), depth=2)

    def __rdivmod__(self, other: Any) -> Delayed:
        return new_task(Delayed, divmod, (other, self), None, OPERATOR.replace(nout=2), depth=2)

    def __round__(self, ndigits: int | None = None) -> Delayed:
        return new_task(Delayed, round, (self, ndigits), None, OPERATOR, depth=2)

    def __iter__(self) -> Iterator[Delayed]:
        n = self._length("iterate over it", "iterate inside a delayed function")
        inputs = (self,)
        items = []
        for item in items_of(n, task_name(self)):  # a comprehension is a frame before Python 3.12
            items.append(  # noqa: PERF401
                new_task(Delayed, item, inputs, None, OPERATOR, depth=2)
            )
        return iter(items)

    def __len__(self) -> int:
        return self._length("take its len", "write delayed(len)(x)")

    def _length(self, doing: str, instead: str) -> int:
        n = self._options.nout
        if n is None and self._func is not VALUE and self._func is not HELD:
            n = annotated_length(self._func)
        if n is None:
            raise TypeError(
                f"can't {doing}: the number of values that {task_name(self)} returns is not known "
                "before it is computed. Declare it: delayed(f, nout=2), or annotate the function "
                f"'-> tuple[A, B]'; or {instead}, or compute() first."
            )
        return n

    # -- operators --------------------------------------------------------------------------

    __add__, __radd__ = _binary(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _binary(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv), _reflected(operator.truediv)
    __floordiv__, __rfloordiv__ = _binary(operator.floordiv), _reflected(operator.floordiv)
    __mod__, __rmod__ = _binary(operator.mod), _reflected(operator.mod)
    __matmul__, __rmatmul__ = _binary(operator.matmul), _reflected(operator.matmul)
    __lshift__, __rlshift__ = _binary(operator.lshift), _reflected(operator.lshift)
    __rshift__, __rrshift__ = _binary(operator.rshift), _reflected(operator.rshift)
    __and__, __rand__ = _binary(operator.and_), _reflected(operator.and_)
    __or__, __ror__ = _binary(operator.or_), _reflected(operator.or_)
    __xor__, __rxor__ = _binary(operator.xor), _reflected(operator.xor)
    __rpow__ = _reflected(operator.pow)
    __lt__, __le__ = _binary(operator.lt), _binary(operator.le)
    __gt__, __ge__ = _binary(operator.gt), _binary(operator.ge)
    __neg__, __pos__ = _unary(operator.neg), _unary(operator.pos)
    __abs__, __invert__ = _unary(operator.abs), _unary(operator.invert)
    __trunc__, __floor__, __ceil__ = _unary(math.trunc), _unary(math.floor), _unary(math.ceil)

    def __eq__(self, other: Any) -> Delayed:  # type: ignore[override]
        return _apply(operator.eq, self, other)

    def __ne__(self, other: Any) -> Delayed:  # type: ignore[override]
        return _apply(operator.ne, self, other)

    # -- identity, text, copies -------------------------------------------------------------

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<Delayed {_description(self, on_messages())}>"

    def _repr_html_(self) -> str:
        return table_html("Delayed", {
            "task": _description(self, on_pages()),
            "made at": place_text(self),
            "inputs": str(len(self._inputs)),
        })

    def __dir__(self) -> list[str]:
        """Return the names to complete: those of the value, too, where its class is known."""
        return sorted({*object.__dir__(self), *_names_of_value(self)})

    def __copy__(self) -> Delayed[T_co]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Delayed[T_co]:
        return self

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return graph_pickle.packed(self)

    def _lazyflow_flat(self) -> tuple[Any, ...]:
        return graph_pickle.flat(self)

    def __lazyflow_tokenize__(self) -> str:
        return plan.key_of(self)

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        raise advice("The text", f"Write format(x.compute(), {spec!r})")

    def _leaf(self, func: Callable[..., Any], value: Any, key: str | None) -> Delayed:
        if key is not None:
            plan.hold_content(value, self)
        return new_leaf(Delayed, func, value, key, made_at=self)

    def _with_inputs(self, inputs: tuple[Task, ...]) -> Delayed[T_co]:
        """Return this call on other inputs."""
        task = object.__new__(Task)
        task._func, task._bind, task._options = self._func, self._bind, self._options
        task._args = inputs if self._args is self._inputs else self._args
        task._inputs = inputs
        task._code, task._lasti = self._code, self._lasti
        task._height, task._key = self._height, self._key
        task.__class__ = Delayed
        return task  # type: ignore[return-value]


class _Attribute(Delayed):
    """``x.name``: a lazy attribute; calling it makes one task that calls the method."""

    __slots__ = ()

    def __call__(self, /, *args: Any, dask_key_name: str | None = None, **kwargs: Any) -> Delayed:
        name = attribute_of(self._func)
        return _called(_Method(name), (*self._inputs, *args), kwargs, dask_key_name)


def _called(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], key: str | None
) -> Delayed:
    options = DEFAULT if key is None else NAMED
    return new_task(Delayed, func, args, kwargs, options, key=key, depth=3)


def _description(task: Task, scalars: bool) -> str:
    """Return the text of a task between the brackets of its `repr`."""
    if task._func is VALUE:
        return task_name(task) if task._options.named else leaf_text(task, scalars)
    if task._func is HELD:
        future = task._args[0]
        return f"{future.name}: {future.state}"
    return call_text(task, list(task._inputs), scalars)


def _names_of_value(task: Task) -> list[str]:
    """Return the public attributes of a task's value: of itself, if it is here, or of its class."""
    what: Any = None
    if task._func is VALUE:
        what = task._args[0]
    elif task._func is HELD:
        future = task._args[0]
        if future.done() and not future.is_elsewhere():
            what = future.local_outcome()[0]
    else:
        what = annotated_class(task._func)
    return [] if what is None else [name for name in dir(what) if not name.startswith("_")]


def table_html(title: str, rows: dict[str, str]) -> str:
    """Return a table for a notebook: a row for each text, by its name."""
    from html import escape

    left = "style='text-align:left'"
    body = "".join(
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(text)}</td></tr>"
        for name, text in rows.items()
    )
    return f"<table><caption><b>{escape(title)}</b></caption>{body}</table>"
