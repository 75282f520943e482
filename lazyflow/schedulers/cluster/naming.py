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

    The count is rounded up to a power of two.

    >>> from lazyflow import delayed
    >>> load, inc = delayed(open, name="load-csv")("a.csv"), delayed(lambda x: x + 1)(1)
    >>> group_name([load], 1), group_name([load, inc], 2), group_name([inc], 12)
    ('load_csv', 'load_csv+lambda', 'lambda~16')
    """
    shown = [task for task in kinds if type(task._func) is not Item] or kinds
    # no "-", at which the parts of a key are told apart
    names = list(dict.fromkeys(
        re.sub(r"[^\w.+]+", "_", task_name(task)).strip("_") or "task" for task in shown))
    size = f"~{1 << (count - 1).bit_length()}" if count > len(names) else ""
    if len(names) > _MOST:
        names[_MOST - 1:-1] = [".."]
    return "+".join(names) + size
