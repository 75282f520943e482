"""The options of tasks, beside their functions and arguments, and `annotate`.

`Options` are immutable and shared by all tasks of one `delayed` function, so a task has one
reference to them. What an enclosing ``with annotate(...)`` gives is merged when a call is made,
once for each `Options`; what was given to `delayed` itself wins:

>>> with annotate(retries=3, priority=1):
...     merged = annotation.get().apply(Options(retries=1))
>>> merged.retries, merged.priority, merged.special
(1, 1, True)
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter
from typing import Any


class _OptionFields:
    """The fields of options, while they are filled in."""

    __slots__ = (
        "crash_retries",
        "explicit",
        "hide",
        "label",
        "mutates",
        "named",
        "nout",
        "operator",
        "priority",
        "pure",
        "resources",
        "retries",
        "special",
        "workers",
    )

    label: str | None
    pure: bool
    named: bool
    operator: bool
    nout: int | None
    mutates: bool
    retries: int
    crash_retries: int | None
    priority: int
    resources: Mapping[str, float] | None
    workers: tuple[str | int, ...] | None
    hide: bool | tuple[str, ...]
    explicit: tuple[str, ...]
    special: bool  # planning has to look closer at such tasks


class Options(_OptionFields):
    """The options of a task; immutable, and shared by all tasks of one `delayed` function.

    label
        The task's name in errors, drawings and `repr`; None: the function's own name.
    pure
        Equal function and equal arguments name one task; such tasks merge.
    named
        The task carries a key given by the user.
    operator
        An operator, attribute or item: as pure as its inputs are.
    nout
        The length of the result, if given.
    mutates
        The function edits its arguments: it gets private, writable values.
    retries
        How often the task runs again after an exception.
    crash_retries
        How often it runs again after the death of a worker; None: the scheduler's default.
    priority
        Among ready tasks, higher ones start first.
    resources
        The worker's resources that the task needs, by name.
    workers
        The only workers that may run it; None: all may.
    hide
        The parameters whose arguments are hidden in messages and pages; True: all, and the result.
    explicit
        Names of options that were given with their default values, which `annotate` leaves alone.
    """

    __slots__ = ()

    def __new__(
        cls,
        *,
        label: str | None = None,
        pure: bool = False,
        named: bool = False,
        operator: bool = False,
        nout: int | None = None,
        mutates: bool = False,
        retries: int = 0,
        crash_retries: int | None = None,
        priority: int = 0,
        resources: Mapping[str, float] | None = None,
        workers: str | int | Iterable[str | int] | None = None,
        hide: bool | str | Iterable[str] = (),
        explicit: tuple[str, ...] = (),
    ) -> "Options":
        made: Any = object.__new__(_OptionFields)
        made.label = label
        made.pure = pure
        made.named = named
        made.operator = operator
        made.nout = nout
        made.mutates = mutates
        made.retries = retries
        made.crash_retries = crash_retries
        made.priority = priority
        made.resources = None if resources is None else dict(resources)
        if isinstance(workers, str | int):
            workers = (workers,)
        made.workers = None if workers is None else tuple(workers)
        made.hide = hide is True or ((hide,) if isinstance(hide, str) else tuple(hide or ()))
        made.explicit = explicit
        made.special = bool(
            pure or named or mutates or nout is not None or priority or resources is not None
            or crash_retries is not None or workers is not None
        )
        made.__class__ = cls  # last: options refuse assignment
        options: Options = made
        return options

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"options are shared by tasks; write: options.replace({name}=...)")

    def __reduce__(self) -> str | tuple[Any, ...]:
        name = _names_of_constants.get(self)  # planning compares them by identity
        if name is not None:
            return name
        return _again, (self.given(),)

    def given(self) -> dict[str, Any]:
        """Return the arguments from which equal options can be made."""
        return dict(zip(_GIVEN, _values_given(self), strict=True))

    def replace(self, **changes: Any) -> "Options":
        """Return a copy with some fields changed."""
        return Options(**(self.given() | changes))


_GIVEN = tuple(name for name in _OptionFields.__slots__ if name != "special")
_values_given = attrgetter(*_GIVEN)


def _again(fields: dict[str, Any]) -> Options:
    return Options(**fields)


def check_options(
    nout: int | None = None,
    retries: int = 0,
    crash_retries: int | None = None,
    priority: int = 0,
    resources: Mapping[str, float] | None = None,
    label: str | None = None,
    workers: Any = None,
    hide: Any = (),
) -> None:
    """Raise for a value that can't be meant, at the line where it was written."""
    if nout is not None and (type(nout) is not int or nout < 0):
        raise ValueError(f"nout must be a whole number, 0 or more, or None; got {nout!r}")
    for name, count in (("retries", retries), ("crash_retries", crash_retries)):
        if name == "crash_retries" and count is None:
            continue
        if type(count) is not int or count < 0:
            raise ValueError(f"{name} must be a whole number, 0 or more; got {count!r}")
    if type(priority) is not int:
        raise TypeError(f"priority must be a whole number (higher starts first); got {priority!r}")
    if resources is not None and not isinstance(resources, Mapping):
        raise TypeError(f"resources must be a dict such as {{'GPU': 1}}; got {resources!r}")
    for resource, amount in (resources or {}).items():
        if not isinstance(resource, str) or not hasattr(type(amount), "__float__"):
            raise TypeError(
                "resources must be names and numbers, such as {'GPU': 1}; "
                f"got {resource!r}: {amount!r:.100}"
            )
        if not amount >= 0:  # NaN neither
            raise ValueError(f"resources must be 0 or more; got {resource!r}: {amount!r}")
    if label is not None and not isinstance(label, str):
        raise TypeError(f"name must be a str; got {label!r}")
    if workers is not None and not isinstance(workers, str | int):
        if not isinstance(workers, list | tuple | set | frozenset) or not all(
            isinstance(each, str | int) for each in workers
        ):
            raise TypeError(
                "workers must be the name, address or host of a worker, or a list of them; "
                f"got {workers!r}"
            )
        if not workers:
            raise ValueError("workers is empty, so no worker could run the task; leave it out")
    if not isinstance(hide, bool | str) and not (
        isinstance(hide, list | tuple | set | frozenset) and all(isinstance(x, str) for x in hide)
    ):
        raise TypeError(
            "hide must be the name of a parameter whose values are not to be shown, a list of "
            f"names, or True for all; got {hide!r:.100}"
        )


def scheduling_options(options: Options) -> Any:
    """Return the options that tasks of one group share and the engine needs, None without any."""
    once, workers = options.crash_retries, options.workers
    if not options.priority and not options.resources and workers is None and once is None:
        return None
    return options.priority, tuple(sorted((options.resources or {}).items())), workers, once


#: The options of a task for which none was given.
DEFAULT = Options()
_DEFAULTS = DEFAULT.given()

#: The options of a value under a key of its own.
NAMED = Options(named=True)

#: The options of operators, attributes and items.
OPERATOR = Options(operator=True)

#: The options of a value that errors, drawings and pages do not show.
HIDDEN = Options(hide=True)

#: The options of operators on such values, of their attributes and items.
HIDDEN_OPERATOR = Options(operator=True, hide=True)

_names_of_constants = {
    DEFAULT: "DEFAULT", NAMED: "NAMED", OPERATOR: "OPERATOR", HIDDEN: "HIDDEN",
    HIDDEN_OPERATOR: "HIDDEN_OPERATOR",
}


class Annotation:
    """The options that enclosing ``with annotate(...)`` blocks give, and merged ones, cached."""

    __slots__ = ("cache", "fields")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.cache: dict[Options, Options] = {}

    def apply(self, options: Options) -> Options:
        """Return `options`, with those that were not given filled in from the annotation."""
        merged = self.cache.get(options)
        if merged is None:
            given = options.given()
            missing = {
                f: v for f, v in self.fields.items()
                if given[f] == _DEFAULTS[f] and f not in options.explicit
            }
            merged = self.cache[options] = options.replace(**missing)
        return merged


#: The annotation in force where the code runs; None outside every block.
annotation: ContextVar[Annotation | None] = ContextVar("lazyflow_annotation", default=None)


@contextmanager
def annotate(
    *,
    retries: int | None = None,
    crash_retries: int | None = None,
    priority: int | None = None,
    resources: Mapping[str, float] | None = None,
    workers: str | int | Iterable[str | int] | None = None,
    name: str | None = None,
    hide: bool | str | Iterable[str] | None = None,
) -> Iterator[None]:
    """Give options to every task that is made inside the block.

    In nested blocks the inner one wins; an option given to `delayed` itself wins over
    both. The block is a context variable: other threads and other async tasks do not see it.

    Parameters
    ----------
    retries, crash_retries, priority, resources, workers, hide
        As in `delayed`.
    name
        A label for errors, drawings and progress. It is not a key: tasks with the same label
        stay separate.

    Raises
    ------
    TypeError, ValueError
        As `delayed`.

    Examples
    --------
    >>> import lazyflow
    >>> with lazyflow.annotate(retries=3, name="download"):
    ...     x = lazyflow.delayed(int)("7")
    >>> x
    <Delayed download('7')>
    """
    words: dict[str, Any] = {
        "retries": retries,
        "crash_retries": crash_retries,
        "priority": priority,
        "resources": resources,
        "workers": workers,
        "label": name,
        "hide": hide,
    }
    fields = {f: v for f, v in words.items() if v is not None}
    check_options(**fields)
    own = Options(**fields)  # copies, which later changes of what was given do not reach
    fields = {f: getattr(own, f) for f in fields}
    outer = annotation.get()
    if outer is not None:
        fields = outer.fields | fields
    token = annotation.set(Annotation(fields))
    try:
        yield
    finally:
        annotation.reset(token)
