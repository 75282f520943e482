"""What an engine's own pages call a group: what it does, and of how many tasks.

distributed's pages, and what it learns of durations, go by the part of a key before its numbers;
Ray's summary goes by the names of tasks. So groups of equal work have equal names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lazyflow.graph.items import Item
from lazyflow.graph.task import Task, task_name

_MOST = 3  # names that are shown


def group_name(kinds: Sequence[Task], count: int) -> str:
    """Return the name of a group of `count` tasks, of which `kinds` has one of each function.

    The count is rounded up to a power of two. Items of one result have one name.

    >>> from lazyflow import delayed
    >>> load, inc = delayed(open, name="load-csv")("a.csv"), delayed(lambda x: x + 1)(1)
    >>> group_name([load], 1), group_name([load, inc], 2), group_name([inc], 12)
    ('load_csv', 'load_csv+lambda', 'lambda~16')
    >>> group_name(list(delayed(divmod, nout=2)(17, 5)), 2)
    'divmod_item~2'
    """
    items = [func for task in kinds if isinstance(func := task._func, Item)]
    shown = [task_name(task) for task in kinds if type(task._func) is not Item]
    shown = shown or [f"{item.maker}_item" for item in items]
    # no "-", at which the parts of a key are told apart
    names = list(dict.fromkeys(
        re.sub(r"[^\w.+]+", "_", name).strip("_") or "task" for name in shown))
    size = f"~{1 << (count - 1).bit_length()}" if count > len(names) else ""
    if len(names) > _MOST:
        names[_MOST - 1:-1] = [".."]
    return "+".join(names) + size
