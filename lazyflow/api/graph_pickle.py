"""Lazy values as bytes: a graph is pickled as a flat list of records in topological order.

Depth costs no recursion; functions are pickled by cloudpickle (lambdas and those of `__main__`
too); the line that made a task is pickled as file, line and name, never as code. A task that
comes back to a process where it still lives, or was unpickled before, is that same object, so
that the tasks which two pickled values share still run once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyflow.finalizers import WeakValues
from lazyflow.graph.plan import in_order, key_of
from lazyflow.graph.task import HELD, VALUE, Place, Task, place

#: Living tasks by key, of those that were pickled or unpickled here.
_known: WeakValues[Task] = WeakValues()

#: Classes whose tasks are pickled as tasks of another class: a delayed function among the inputs
#: of a task is just its function. Higher modules fill it.
pickled_as: dict[type[Task], type[Task]] = {}


def packed(task: Task) -> tuple[Any, ...]:
    """Return the result of `__reduce_ex__`: a function and its arguments."""
    import cloudpickle

    return unpacked, (cloudpickle.dumps(flat(task)[1][0]),)


def flat(task: Task) -> tuple[Any, ...]:
    """Return the same as `packed`, for a pickler that can pickle any function."""
    return from_records, (_records([task])[0],)


def packed_together(tasks: Sequence[Task]) -> bytes:
    """Return several tasks as bytes, in which each task that they share stands once."""
    import cloudpickle

    records, number = _records(tasks)
    data: bytes = cloudpickle.dumps((records, [number[t] for t in tasks]))
    return data


def unpacked_together(data: bytes) -> list[Task]:
    """Return the tasks of which `packed_together` made these bytes."""
    import pickle

    records, numbers = pickle.loads(data)
    tasks = _tasks(records)
    return [tasks[n] for n in numbers]


def _records(tasks: Sequence[Task]) -> tuple[list[tuple[Any, ...]], Any]:
    order, number = in_order(tasks)
    records = []
    places: dict[tuple[int, int], Place] = {}  # tasks made by one line
    for t in order:
        func, args = t._func, t._args
        if func is HELD:
            value, error = args[0].outcome_now()
            if error is not None:
                raise error
            func, args = VALUE, (value,)
        inputs = tuple([number[x] for x in t._inputs])
        all_inputs = t._args is t._inputs
        key = key_of(t)
        if not t._options.named:
            _known[key] = t
        at = id(t._code), t._lasti
        where = places.get(at)
        if where is None:
            where = places[at] = place(t)
        cls = pickled_as.get(type(t), type(t))
        records.append(
            (cls, func, None if all_inputs else args, inputs, t._bind, t._options, where,
             t._height, key)
        )
    return records, number


def unpacked(data: bytes) -> Task:
    """Return the last task of the pickled records."""
    import pickle

    return from_records(pickle.loads(data))


def from_records(records: list[tuple[Any, ...]]) -> Task:
    """Return the last task of the records."""
    return _tasks(records)[-1]


def _tasks(records: list[tuple[Any, ...]]) -> list[Task]:
    tasks: list[Task] = []
    for cls, func, args, numbers, bind, options, where, height, key in records:
        known = None if options.named else _known.get(key)
        if known is not None:
            tasks.append(known)
            continue
        task = object.__new__(Task)
        task._inputs = tuple([tasks[n] for n in numbers])
        task._args = task._inputs if args is None else args
        task._func, task._bind, task._options = func, bind, options
        task._code, task._lasti, task._height, task._key = where, -1, height, key
        task.__class__ = cls
        if not options.named:
            _known[key] = task
        tasks.append(task)
    return tasks
