"""The rare things between two tasks of a run: everything the quick loop must not pay for.

Functions over `Run`, beside its loop: calling a task with observers, copied values, failed
inputs, `mutates`, `nout` or `check_mutation` about, and culling what dropped futures needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from lazyflow.errors import Cancelled, InputMutated
from lazyflow.graph.items import check_length
from lazyflow.graph.task import Task, place_text, task_name
from lazyflow.schedulers.core.base import Observer
from lazyflow.schedulers.core.errors.failures import dressed, is_users_interrupt
from lazyflow.schedulers.core.slots import here
from lazyflow.schedulers.core.task_resources import task_over
from lazyflow.store.values import editable, private

if TYPE_CHECKING:
    from lazyflow.schedulers.core.lifecycle import Lifecycle
    from lazyflow.schedulers.core.run import Run

#: Observers that raised, by id: logged then, ignored since. Held, so that an id stays theirs;
#: by id, since an observer may compare as it likes (a dataclass can't be hashed).
broken_observers: dict[int, Any] = {}


def tell(run: Lifecycle, event: str, *details: Any) -> None:
    """Call one method of every observer; one that raises is logged and dropped."""
    for observer in tuple(run.observers):
        try:
            getattr(observer, event)(run, *details)
        except BaseException as error:  # SystemExit too: it would end the thread
            _drop_observer(run, observer, event, error)


#: An observer and its method for one event.
Hearer = tuple[Any, Callable[[Any, int], None]]


def hearers(observers: list[Any], event: str) -> list[Hearer]:
    """Return who hears an event that comes once a task: not who leaves Observer's method empty."""
    empty = getattr(Observer, event)
    found = [(o, getattr(o, event, None)) for o in observers]
    return [(o, m) for o, m in found if m is not None and getattr(m, "__func__", m) is not empty]


def hear(run: Lifecycle, hearers: list[Hearer], i: int) -> None:
    """Tell task `i` to ``run.on_start`` or ``run.on_done``."""
    for observer, method in tuple(hearers):
        try:
            method(run, i)
        except BaseException as error:
            event = "task_started" if hearers is run.on_start else "task_ended"
            _drop_observer(run, observer, event, error)


def _drop_observer(run: Lifecycle, observer: Any, event: str, error: BaseException) -> None:
    """Call an observer that raised no more, in this run and in later ones; log the first time."""
    if is_users_interrupt(error):
        raise error
    run.observers[:] = [o for o in run.observers if o is not observer]
    for heard in (run.on_start, run.on_done):  # new lists would not reach running loops
        heard[:] = [pair for pair in heard if pair[0] is not observer]
    mine = [observer]  # made here, so that just one of several threads finds it in the dict
    if broken_observers.setdefault(id(observer), mine) is not mine:
        return
    import logging

    try:
        logging.getLogger("lazyflow").error(
            "the observer %s failed in %s and is not called again; results are not affected",
            type(observer).__name__, event, exc_info=error,
        )
    except Exception:  # a log handler that raises must not change results either
        pass


def call_once(task: Task, given: list[Any]) -> Any:
    """Call a task's function with these values of its inputs."""
    if task._bind is not None:
        args, kwargs = task._bind.fill(given)
        return task._func(*args, **kwargs)
    return task._func(*(given if task._inputs else task._args))


def call(run: Run, i: int) -> Any:
    """Run task `i` with everything looked at; return its value, or None when it failed."""
    if run.deadline is not None and monotonic() >= run.deadline:
        run.stop.append(None)
        return None
    if run.dropped:
        cull(run)
        if run.stop:
            return None
    numbers = run.plan.inputs[i] or ()
    raw, last = _take(run, numbers)
    if _is_moot(run, i, numbers):
        return None
    task = run.plan.tasks[i]
    attempts = task._options.retries + 1
    hear(run, run.on_start, i)
    given: list[Any] = []
    while True:
        attempts -= 1
        try:
            given = _handed(run, task, raw, numbers, last if not attempts else None)
            value = _checked(run, task, raw, given)
            break
        except BaseException as error:
            if attempts and isinstance(error, Exception):
                if here.uses:
                    task_over(run)
                continue
            return _give_up(run, i, given, error)
    hear(run, run.on_done, i)
    return value


def prepared(run: Run, i: int) -> list[Any] | None:
    """Return the values of task `i`'s inputs as it may have them; None when it need not run."""
    if run.dropped:
        cull(run)
    numbers = run.plan.inputs[i] or ()
    raw, _ = _take(run, numbers)
    if _is_moot(run, i, numbers):
        return None
    return _handed(run, run.plan.tasks[i], raw, numbers, None)


def _is_moot(run: Run, i: int, numbers: Sequence[int]) -> bool:
    """Tell whether a task need not run: nobody wants it, or an input failed (then it has, too)."""
    failed = next((j for j in numbers if j in run.failed), None)
    if failed is not None:
        run.failed[i] = run.failed[failed]
    return failed is not None or i in run.unneeded


def _take(run: Run, numbers: Sequence[int]) -> tuple[list[Any], list[bool]]:
    """Return the stored values of some inputs, and for each whether nobody else will ask."""
    raw: list[Any] = []
    last: list[bool] = []
    values = run.values
    for j in numbers:
        raw.append(values[j])  # before the token is taken: whoever takes the last one drops it
        left = run.releases[j]
        is_last = left is None or next(left, True) is True
        last.append(is_last)
        if is_last:
            values[j] = None
    return raw, last


def _handed(
    run: Run,
    task: Task,
    raw: list[Any],
    numbers: Sequence[int],
    last: list[bool] | None,
) -> list[Any]:
    """Return what the task gets: copies where it may edit or others share."""
    if task._options.mutates:
        if last is None:  # it may have to run again
            return [editable([value], False) for value in raw]
        given = []
        for at, is_last in enumerate(last):
            box, raw[at] = [raw[at]], None
            given.append(editable(box, is_last))
        return given
    if run.copied.isdisjoint(numbers):
        return raw
    return [private(v) if j in run.copied else v for j, v in zip(numbers, raw, strict=True)]


def _checked(run: Run, task: Task, raw: list[Any], given: list[Any]) -> Any:
    check = run.request.check_mutation and not task._options.mutates
    before = list(contents(task, raw)) if check else []
    value = call_once(task, given)
    if check:
        for (where, token), (_, now) in zip(before, contents(task, raw), strict=True):
            if token != now:
                raise InputMutated(mutated(task_name(task), where, place_text(task)))
    nout = task._options.nout
    if nout is not None:
        check_length(value, nout, task_name(task))
    return value


def mutated(name: str, what: str, place: str) -> str:
    """Return what is said when a task edited an input or a literal."""
    return (
        f"{name} changed its {what} in place. Other tasks share that value: copy it first, or say "
        f"delayed({name}, mutates=True) to get a private one. Made at {place}"
    )


def contents(task: Task, raw: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield name and content hash of each input and literal; nothing for what has no content."""
    from lazyflow.graph.tokens.tokenize import tokenize

    literals = list(task._args) if task._bind is None else [
        *task._bind.template, *(m[1] for m in task._bind.makers)
    ]
    named = [(f"input {at}", v) for at, v in enumerate(raw)]
    named += [(f"literal argument {at}", v) for at, v in enumerate(literals)]
    for where, value in named:
        try:
            yield where, tokenize(value, strict=True)
        except TypeError:
            yield where, ""


def _give_up(run: Run, i: int, given: list[Any], error: BaseException) -> None:
    if is_users_interrupt(error):
        run.cancel(Cancelled("interrupted"))
        raise error
    error = dressed(error, run.plan.tasks[i], given)
    tell(run, "task_failed", i, error)
    run.note_failure(i, error)


_cull_lock = threading.Lock()


def cull(run: Lifecycle, replace_threads: bool = False) -> None:
    """Mark what only dropped futures needed, so that it is not started.

    The uses of each task are counted down as in reference counting; a task without any is
    unneeded, and so it uses its inputs no more. When nothing is needed the run ends: tasks that
    run just finish, and `replace_threads` tells whether others get their places at once.
    """
    with _cull_lock:
        if run.futures is None:
            return
        if run.uses_left is None:
            run.uses_left = [len(run.plan.uses(i)) for i in range(run.plan.end)]
        uses = run.uses_left
        todo = []
        while run.dropped:
            i = run.dropped.popleft().then
            if run.futures.pop(i, None) is not None:
                todo.append(i)
        while todo:
            i = todo.pop()
            uses[i] -= 1
            if uses[i] == 0:
                run.unneeded.add(i)
                todo.extend(run.plan.inputs[i] or ())
        is_over = not run.futures
    if is_over:
        run.close_unneeded(replace_threads)
