"""`delayed`: makes a function lazy, so that a call makes a task; `from_map` makes many calls,
`tree_reduce` joins values.

A `DelayedFunction` is a leaf that holds the function, so it can be an argument of other calls. Its
further fields, which never change, are ``_called_options :: Options``, shared by all tasks that it
makes, and ``_traverse :: bool``. A call without keywords, whose arguments are all plain or all
lazy, fills the slots of a `Task` itself, which is the quickest way; others go to `new_task`
(graph/binding.py). Both set the class of the task last, because a `Delayed` refuses to have
attributes set.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from lazyflow.api.collection import Collection
from lazyflow.api.evaluate import OF_ENGINES
from lazyflow.api.graph_pickle import pickled_as
from lazyflow.api.hints import words_for_keyword
from lazyflow.api.lazy import Delayed
from lazyflow.config import nearest
from lazyflow.graph.binding import new_leaf, new_task
from lazyflow.graph.kinds import ATOM, COLLECTION, DICTVIEW, FOREIGN, ITERATOR, LAZY, kinds
from lazyflow.graph.options import DEFAULT, Options, annotation, check_options
from lazyflow.graph.task import VALUE, Task, function_name
from lazyflow.schedulers.core.coroutines import Awaited, finished
from lazyflow.schedulers.core.errors.words import check_hidden, summary

P = ParamSpec("P")
P2 = ParamSpec("P2")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

if TYPE_CHECKING:
    from typing import Protocol, TypedDict, Unpack

    class _DelayedOptions(TypedDict, total=False):
        name: str | None
        pure: bool
        nout: int | None
        traverse: bool
        mutates: bool
        retries: int
        crash_retries: int | None
        priority: int
        resources: Mapping[str, float] | None
        workers: str | int | Iterable[str | int] | None
        hide: bool | str | Iterable[str]
        num_returns: int | None

    class _Decorator(Protocol):
        @overload
        def __call__(self, func: classmethod[T, P, R], /) -> Any: ...
        @overload
        def __call__(self, func: Callable[P, R], /) -> DelayedFunction[P, R]: ...


#: Attributes of functions that `inspect` reads.
_OF_THE_FUNCTION = frozenset(
    {
        "__defaults__", "__isabstractmethod__", "__name__", "__qualname__",
        "__text_signature__",
    }
)

_new = object.__new__
_frame = sys._getframe


class _Unfinished(Task):
    """A `DelayedFunction` whose fields can still be set, at the speed of slots."""

    __slots__ = ("_called_options", "_traverse")
    _called_options: Options
    _traverse: bool


class DelayedFunction(Delayed[Callable[P, R_co]], _Unfinished, Generic[P, R_co]):
    """A callable made lazy by `delayed`. Calling it makes a task.

    As an argument of another call it is the function itself. It keeps the name, the docstring and
    the signature of the function.
    """

    __slots__ = ()

    # Type checkers show the parameters of the function; any argument may be lazy instead, at any
    # depth, which they can't say of parameters, so the second of a pair takes everything.
    @overload
    def __call__(
        self: DelayedFunction[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Delayed[T]: ...
    @overload
    def __call__(
        self: DelayedFunction[P, Coroutine[Any, Any, T]], /, *args: Any,
        dask_key_name: str | None = None, **kwargs: Any,
    ) -> Delayed[T]: ...
    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Delayed[R_co]: ...
    @overload
    def __call__(
        self, /, *args: Any, dask_key_name: str | None = None, **kwargs: Any
    ) -> Delayed[R_co]: ...
    def __call__(  # type: ignore[misc]  # a parameter called dask_key_name is not the function's
        self, /, *args: Any, dask_key_name: str | None = None, **kwargs: Any
    ) -> Any:
        """Return the task of one call; keyword ``dask_key_name`` names it."""
        options = self._called_options
        if kwargs or dask_key_name is not None or annotation.get() is not None or options.mutates:
            return self._call_with(args, kwargs, dask_key_name)
        height = lazy = 0
        for x in args:
            kind = kinds[type(x)]
            if kind == LAZY:
                lazy += 1
                if x._height >= height:
                    height = x._height + 1
            elif kind != ATOM:
                return self._call_with(args, kwargs, None)
        if lazy == 0:
            inputs: tuple[Task, ...] = ()
        elif lazy == len(args):
            inputs = args
        else:
            return self._call_with(args, kwargs, None)
        task = _new(Task)
        task._func = self._args[0]
        task._args = args
        task._inputs = inputs
        task._bind = None
        task._options = options
        frame = _frame(1)
        task._code = frame.f_code
        task._lasti = frame.f_lasti
        task._height = height
        task._key = None
        task.__class__ = Delayed
        return task

    def _call_with(self, args: tuple[Any, ...], kwargs: dict[str, Any], key: str | None) -> Delayed:
        options = self._called_options
        if key is not None:
            if not isinstance(key, str):
                raise TypeError(f"dask_key_name must be a str; got {key!r}")
            options = options.replace(named=True)
        return new_task(
            Delayed, self._args[0], args, kwargs, options,
            key=key, traverse=self._traverse, depth=3,
        )

    @overload
    def __get__(self, obj: None, owner: type | None = None) -> DelayedFunction[P, R_co]: ...
    @overload
    def __get__(
        self: DelayedFunction[Concatenate[Any, P2], R_co], obj: object, owner: type | None = None
    ) -> DelayedFunction[P2, R_co]: ...
    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        """Bind to an object as the callable itself would: functions do, builtins do not."""
        func = self._args[0]
        get = getattr(type(func), "__get__", None)
        if obj is None or get is None or isinstance(func, staticmethod):
            return self
        # Bound methods, since Python 3.13, and partials in it have __get__, and give themselves.
        return self if get(func, obj, owner) is func else MethodType(self, obj)

    def __getattr__(self, name: str) -> Any:
        if name in _OF_THE_FUNCTION:
            return getattr(self._args[0], name)
        return super().__getattr__(name)

    def _with_retries(self, retries: int) -> DelayedFunction[P, R_co]:
        options = self._called_options
        explicit = (*options.explicit, "retries")
        changed = options.replace(retries=retries, explicit=explicit)
        return make_function(self._args[0], changed, self._traverse)

    @property
    def __wrapped__(self) -> Callable[P, R_co]:
        func: Callable[P, R_co] = self._args[0]
        return func

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
        annotations: dict[str, Any] = getattr(self._args[0], "__annotations__", {})
        return annotations

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return getattr(self._args[0], "__doc__", None)

    @property
    def __module__(self) -> str:  # type: ignore[override]
        return getattr(self._args[0], "__module__", None) or "builtins"

    _repr_html_ = None  # type: ignore[assignment]  # a notebook shows the text below

    def __repr__(self) -> str:
        return f"<delayed function {function_name(self._args[0])}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        import cloudpickle

        return _function_again, (cloudpickle.dumps(self._lazyflow_flat()[1]),)

    def _lazyflow_flat(self) -> tuple[Any, ...]:
        """Return the result of `__reduce__`, for a pickler that can pickle any function."""
        return make_function, (self._args[0], self._called_options, self._traverse)


pickled_as[DelayedFunction] = Delayed


def _function_again(data: bytes) -> DelayedFunction:
    import pickle

    return make_function(*pickle.loads(data))


def make_function(func: Any, options: Options, traverse: bool) -> DelayedFunction:
    """Return a function made lazy, whose calls have these options."""
    if type(func) in _MAY_BE_ASYNC and _is_async(func):
        func = Awaited(func)
    leaf = _new(_Unfinished)
    leaf._func = VALUE
    leaf._args = (func,)
    leaf._inputs = ()
    leaf._bind = None
    leaf._options = DEFAULT
    leaf._code = None
    leaf._lasti = 0
    leaf._height = 0
    leaf._key = None
    leaf._called_options = options
    leaf._traverse = traverse
    leaf.__class__ = DelayedFunction
    return leaf  # type: ignore[return-value]


_CO_COROUTINE = 0x80  # of `inspect`, whose import takes 5 ms
_MAY_BE_ASYNC = frozenset({FunctionType, MethodType, partial})


def _is_async(func: Any) -> bool:
    while type(func) is partial:
        func = func.func
    code = getattr(func, "__code__", None)
    return code is not None and bool(code.co_flags & _CO_COROUTINE)


class _NotGiven:
    def __repr__(self) -> str:
        return "<not given>"


_NOT_GIVEN: Any = _NotGiven()


@overload
def delayed(**options: Unpack[_DelayedOptions]) -> _Decorator: ...
@overload
def delayed(
    obj: DelayedFunction[P, R], **options: Unpack[_DelayedOptions]
) -> DelayedFunction[P, R]: ...
@overload
def delayed(  # type: ignore[overload-overlap]  # a lazy value can be called, too
    obj: Delayed[T], **options: Unpack[_DelayedOptions]
) -> Delayed[T]: ...
@overload
def delayed(obj: Collection, **options: Unpack[_DelayedOptions]) -> Delayed[Any]: ...
@overload
def delayed(obj: classmethod[T, P, R], **options: Unpack[_DelayedOptions]) -> Any: ...
@overload
def delayed(obj: type[T], **options: Unpack[_DelayedOptions]) -> DelayedFunction[..., T]: ...
@overload
def delayed(
    obj: Callable[P, R], **options: Unpack[_DelayedOptions]
) -> DelayedFunction[P, R]: ...
@overload
def delayed(obj: list[Delayed[T]], **options: Unpack[_DelayedOptions]) -> Delayed[list[T]]: ...
@overload
def delayed(obj: T, **options: Unpack[_DelayedOptions]) -> Delayed[T]: ...
def delayed(
    obj: Any = _NOT_GIVEN,
    *,
    name: str | None = None,
    pure: bool = False,
    nout: int | None = None,
    traverse: bool = True,
    mutates: bool = False,
    retries: int = _NOT_GIVEN,
    crash_retries: int | None = None,
    priority: int = _NOT_GIVEN,
    resources: Mapping[str, float] | None = None,
    workers: str | int | Iterable[str | int] | None = None,
    hide: bool | str | Iterable[str] = _NOT_GIVEN,
    num_returns: int | None = None,
    **unknown: Any,
) -> Any:
    """Make a function lazy: calling it returns a `Delayed` instead of running it.

    Use it as a decorator, with or without options, or on any callable or value in place.

    Parameters
    ----------
    obj
        A callable, or a plain value to use as a lazy one. A `Delayed` is returned as it is.
    name
        For a callable: the name of its tasks in errors and drawings. For a value: its key.
    pure
        Equal arguments give equal results: equal calls run once.
    nout
        The number of values that the function returns; the result can then be unpacked. The
        default comes from an annotation ``-> tuple[A, B]``. ``num_returns`` is the same.
    traverse
        False: don't look for lazy values inside containers among the arguments.
    mutates
        True: the function edits its arguments and gets private, writable values. Otherwise its
        arrays are read-only.
    retries
        How often to run a task again after an exception; 0 where none is given, here or by
        `annotate`.
    crash_retries
        How often to run a task again after its worker died (not on sync and threads).
        It also applies to lazy values that the task returns, unless they have their own.
    priority
        Among ready tasks, those of higher priority start first, whichever call made them
        (on Ray, among those of one call). Tasks of `compute` start before those of `submit` and
        `persist`.
    resources
        The worker's resources that the task needs, by name (for schedulers whose workers
        differ).
    workers
        The only workers that may run the task, by name, address or host (``"distributed"``;
        other schedulers refuse it). When all of them are gone, the task waits for one to return.
    hide
        The name of a parameter, or a list of names: errors, `repr`, drawings and pages do not show
        its value. True: they show neither arguments nor the result. See also
        ``config.set(show_values="none")``.

    Raises
    ------
    TypeError
        An option is unknown or has a value of another type; `nout` and `num_returns` differ; or
        `hide` names no parameter of the function.
    ValueError
        `nout`, `retries` or `crash_retries` is not a whole number, 0 or more, or `workers` is
        empty.

    Examples
    --------
    >>> from lazyflow import delayed
    >>> @delayed
    ... def add(x, y):
    ...     return x + y
    >>> add(add(1, 2), 3).compute()
    6
    >>> @delayed(nout=2)
    ... def split(pair):
    ...     return pair
    >>> a, b = split((1, 2))
    >>> (a + b).compute()
    3
    """
    if (
        name is None and nout is None and not pure and not mutates and retries is _NOT_GIVEN
        and priority is _NOT_GIVEN and traverse and crash_retries is None and resources is None
        and workers is None and hide is _NOT_GIVEN and num_returns is None and not unknown
    ):
        if callable(obj) and kinds[type(obj)] == ATOM:
            return make_function(obj, DEFAULT, True)
        options = DEFAULT
    else:
        for word in unknown:
            hint = OF_ENGINES.get(word) or nearest(word, _OPTIONS)
            raise TypeError(
                f"delayed() got an unexpected option {word!r}{hint} Keywords of the call go where "
                "the function is called: delayed(f)(x, key=1)"
            )
        if num_returns is not None:
            if nout is not None and nout != num_returns:
                raise TypeError(f"nout={nout} and num_returns={num_returns}: pass one of them")
            nout = num_returns
        words: dict[str, Any] = {
            "crash_retries": crash_retries, "resources": resources, "workers": workers,
        }
        given = {word: value for word, value in words.items() if value is not None}
        words = {"retries": retries, "priority": priority, "hide": hide}
        given |= {word: value for word, value in words.items() if value is not _NOT_GIVEN}
        check_options(nout=nout, label=name, **given)
        explicit = tuple([word for word, value in given.items() if not value])
        options = Options(
            label=name, pure=pure, nout=nout, mutates=mutates, explicit=explicit, **given
        )
    if obj is _NOT_GIVEN:
        return lambda func: _decorated(func, options, traverse)
    return _lazy(obj, options, traverse, name)


def _decorated(func: Any, options: Options, traverse: bool) -> Any:
    if not callable(func) and type(func) is not classmethod:
        raise TypeError(f"@delayed(...) decorates a function or class; got {func!r:.100}")
    return _lazy(func, options, traverse, options.label)


def _lazy(obj: Any, options: Options, traverse: bool, name: str | None) -> Any:
    kind = kinds[type(obj)]
    if kind == LAZY:
        return obj
    if kind == COLLECTION:
        return obj.__lazyflow_value__()
    if callable(obj) and kind != FOREIGN:
        if options.hide:
            check_hidden(obj, options.hide)
        return make_function(obj, options, traverse)
    if type(obj) is classmethod:
        return classmethod(make_function(obj.__func__, options, traverse))
    if options is not DEFAULT:
        options = options.replace(label=None, named=name is not None)
    if kind != ATOM:
        task = new_task(
            Delayed, gathered, (obj,), None, options, key=name, traverse=traverse, depth=3
        )
        if task._inputs or kind in (ITERATOR, DICTVIEW):
            return task
        (obj,) = task._args if task._bind is None else task._bind.fill([])[0]
    leaf = new_leaf(Delayed, VALUE, obj, name, depth=3)
    if options.pure or options.nout is not None or options.hide:
        _set_options(leaf, options)
    return leaf


#: Words of `delayed`, of which a misspelt one is reminded.
_OPTIONS = (
    "name", "pure", "nout", "traverse", "mutates", "retries", "crash_retries", "priority",
    "resources", "workers", "hide", "num_returns",
)

_set_options: Any = Task.__dict__["_options"].__set__


def gathered(value: Any) -> Any:
    """Return a container of results: the function of the task ``delayed([x, y])``."""
    return value


#: Options of tasks, which `submit` does not take: it gives its keywords to the function.
OF_A_TASK = frozenset({"hide", "retries", "priority", "workers", "resources", "crash_retries"})


def check_keywords(func: Any, kwargs: dict[str, Any]) -> None:
    """Raise a TypeError for an option of tasks, or of distributed, given to `submit`."""
    for word in kwargs:
        words = words_for_keyword("submit", word, ())
        if word not in OF_A_TASK and not words:
            continue
        import inspect

        given = kwargs[word]
        try:
            inspect.signature(getattr(func, "__wrapped__", func)).bind_partial(**{word: given})
        except TypeError:
            name = function_name(getattr(func, "__wrapped__", func))
            raise TypeError(
                f"{name}() has no parameter {word!r}, and submit() passes its keywords to the "
                f"function{words or f'. Write submit(delayed({name}, {word}={given!r}), ...)'}"
            ) from None
        except ValueError:  # a builtin without a signature: the call itself will raise
            pass


# -- many calls of one function, and their results joined as a tree --------------------------


def from_map(
    func: Callable[..., T], /, *iterables: Iterable[Any], args: Iterable[Any] = (), **kwargs: Any
) -> list[Delayed[T]]:
    """Call a function lazily for every item, as for the files of a data set.

    Parameters
    ----------
    func
        Any callable. The options of a delayed function apply (``retries``, ``pure``, ...).
    *iterables
        As for the builtin `map`, but of one length.
    args, **kwargs
        Further arguments of every call, behind those of the iterables.

    Returns
    -------
    list of Delayed
        The calls in the order of the items. `compute` takes the list, and so do other lazy calls
        and the estimators of `lazyflow.learn`.

    Raises
    ------
    ValueError
        The iterables differ in length, or there are none.
    TypeError
        `func` is not callable, or is a lazy value.

    Examples
    --------
    >>> from lazyflow import compute, from_map
    >>> parts = from_map(pow, [1, 2, 3], args=(2,))
    >>> parts[1]
    <Delayed pow(2, 2)>
    >>> compute(parts)
    ([1, 4, 9],)

    With pandas: ``from_map(pandas.read_parquet, paths, columns=["day", "price"])``.
    """
    items = list(map(list, iterables))
    if len(set(map(len, items))) != 1:
        lengths = ", ".join(map(str, map(len, items))) or "none"
        raise ValueError(
            f"from_map() calls a function for the items of iterables of one length; got {lengths}. "
            "Arguments that are the same for every call go into args=(...) or keywords"
        )
    lazy = delayed(func)
    if not isinstance(lazy, DelayedFunction):
        raise TypeError(
            f"from_map() takes a function and items; got {summary(func)} as the function"
        )
    calls, more = [], tuple(args)
    for given in zip(*items, strict=True):  # a comprehension is a frame before Python 3.12
        calls.append(new_task(  # noqa: PERF401
            Delayed, lazy.__wrapped__, (*given, *more), kwargs, lazy._called_options,
            traverse=lazy._traverse, depth=2,
        ))
    return calls


def tree_reduce(op: Callable[[Any, Any], Any], parts: Iterable[Any], split_every: int = 8) -> Any:
    """Combine values lazily, two by two, in an order that depends only on their number.

    Each task folds `split_every` neighbours from the left. So a sum of gradients has the same bits
    on every scheduler, and partial sums are computed where their parts are.

    Parameters
    ----------
    op
        An associative function of two values, such as `operator.add`. The options of a delayed
        one are those of each task.
    parts
        Futures, lazy and plain values; at least one.
    split_every
        The number of values that one task combines, 2 or more.

    Returns
    -------
    Delayed

    Raises
    ------
    TypeError
        `op` is not callable.
    ValueError
        There are no parts, or `split_every` is less than 2.

    Examples
    --------
    >>> import operator
    >>> from lazyflow import submit, tree_reduce
    >>> tree_reduce(operator.add, [submit(abs, -i) for i in range(100)]).compute()
    4950
    """
    if type(split_every) is not int or split_every < 2:
        raise ValueError(f"split_every must be a whole number, 2 or more; got {split_every!r}")
    if not callable(op):
        raise TypeError(
            f"tree_reduce() takes a function of two values, such as operator.add, and the parts; "
            f"got {summary(op)} as the function"
        )
    level = list(parts)
    if not level:
        raise ValueError("tree_reduce() got no parts; pass at least one value")
    if len(level) == 1:
        return delayed(level[0])
    call, own, traverse = op, DEFAULT, True
    if isinstance(op, DelayedFunction):
        call, own, traverse = op.__wrapped__, op._called_options, op._traverse
    options = own.replace(
        label=f"reduce by {own.label or _name(op)}", nout=None, hide=bool(own.hide)
    )
    fold = functools.partial(_fold, call)
    while len(level) > 1:
        folds = []
        for i in range(0, len(level) - 1, split_every):
            few = tuple(level[i : i + split_every])
            folds.append(  # the user's line is two frames above
                new_task(Delayed, fold, few, {}, options, traverse=traverse, depth=2)
            )
        level = [*folds, *level[len(folds) * split_every :]]
    return level[0]


def _fold(op: Callable[[Any, Any], Any], *parts: Any) -> Any:
    found = parts[0]
    for part in parts[1:]:
        found = finished(op(found, part))
    return found


def _name(op: Any) -> str:
    return str(getattr(op, "__name__", type(op).__name__))
