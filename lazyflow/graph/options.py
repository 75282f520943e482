"""What can be said about a task beside its function and arguments, and `annotate`."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["DEFAULT", "NAMED", "OPERATOR", "Options", "annotate"]


class Options:
    """The options of a task; immutable, and shared by all tasks made by one `delayed` function.

    label
        What errors, drawings and `repr` call the task; the function's own name when None.
    pure
        Equal function and equal arguments name one task; such tasks merge.
    named
        The task carries a key given by the user.
    operator
        An operator, attribute or item: as pure as its inputs are.
    nout
        Length of the result, when said.
    mutates
        The function edits its arguments: it gets private, writable values.
    retries, crash_retries
        How often to run again after an exception; after the death of a worker
        (None: the scheduler's default).
    priority
        Among ready tasks, higher ones start first.
    resources
        What the task needs of a worker, by name.
    workers
        The only workers that may run it; None: all may.
    """

    __slots__ = (
        "crash_retries",
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

    def __init__(
        self,
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
    ) -> None:
        self.label = label
        self.pure = pure
        self.named = named
        self.operator = operator
        self.nout = nout
        self.mutates = mutates
        self.retries = retries
        self.crash_retries = crash_retries
        self.priority = priority
        self.resources = resources
        if isinstance(workers, str | int):
            workers = (workers,)
        self.workers = None if workers is None else tuple(workers)
        #: Planning has to look closer at this task.
        self.special = bool(
            pure or named or mutates or nout is not None or priority or resources is not None
            or crash_retries is not None or workers is not None
        )

    def __reduce__(self) -> str | tuple[Any, ...]:
        for name in ("DEFAULT", "NAMED", "OPERATOR"):  # compared by identity when planning
            if self is globals()[name]:
                return name
        return _again, ({f: getattr(self, f) for f in self.__slots__ if f != "special"},)

    def replace(self, **changes: Any) -> "Options":
        """Return a copy with some fields changed."""
        fields = {f: getattr(self, f) for f in self.__slots__ if f != "special"}
        return Options(**(fields | changes))


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
) -> None:
    """Raise where a value can't be meant, at the line where it was written."""
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
            raise ValueError("workers is empty, so nobody could run the task; leave it out")


#: The options of a task about which nothing was said.
DEFAULT = Options()

#: The options of a value under a key of its own.
NAMED = Options(named=True)

#: The options of operators, attributes and items.
OPERATOR = Options(operator=True)


class Annotation:
    """What the enclosing ``with annotate(...)`` blocks say, with the merged options cached."""

    __slots__ = ("cache", "fields")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.cache: dict[Options, Options] = {}

    def apply(self, options: Options) -> Options:
        """Return `options`, with what they leave unsaid filled in from the annotation."""
        merged = self.cache.get(options)
        if merged is None:
            unsaid = {
                f: v for f, v in self.fields.items() if getattr(options, f) == getattr(DEFAULT, f)
            }
            merged = self.cache[options] = options.replace(**unsaid)
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
) -> Iterator[None]:
    """Give options to every task that is made inside the block.

    Blocks nest, the inner one rules; an option said at `delayed` itself rules over both. The
    block is a context variable: other threads and other async tasks do not see it.

    Parameters
    ----------
    retries, crash_retries, priority, resources, workers
        As in `delayed`.
    name
        A label for errors, drawings and progress. Not a key: tasks with one label stay apart.

    Examples
    --------
    >>> import lazyflow
    >>> with lazyflow.annotate(retries=3, name="download"):
    ...     x = lazyflow.delayed(int)("7")
    >>> x
    <Delayed download('7')>
    """
    said: dict[str, Any] = {
        "retries": retries,
        "crash_retries": crash_retries,
        "priority": priority,
        "resources": resources,
        "workers": workers,
        "label": name,
    }
    fields = {f: v for f, v in said.items() if v is not None}
    check_options(**fields)
    outer = annotation.get()
    if outer is not None:
        fields = outer.fields | fields
    token = annotation.set(Annotation(fields))
    try:
        yield
    finally:
        annotation.reset(token)
