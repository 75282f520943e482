"""The passes between a graph and its plan, each a function with one sentence on what it does.

Culling needs none: `plan.in_order` reaches only what is wanted. Clustering, for schedulers to
whom a message is dear, comes with those schedulers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyflow.graph.keys import conflict, key_of, same_content
from lazyflow.graph.options import OPERATOR
from lazyflow.graph.task import is_leaf

if TYPE_CHECKING:
    from lazyflow.graph.plan import Plan
    from lazyflow.graph.task import Task


def merge(
    order: list[Task], number: dict[Task, int], pure: bool = True
) -> tuple[list[Task], dict[Task, int]]:
    """Let tasks with one key be one task: equal pure calls, and equal calls under a given key.

    So are operators on those; others stay apart, as a hash for each would cost more than it saves.

    ``pure=False`` merges given keys only. Raises KeyConflict when a key stands for two
    different calls.

    >>> from lazyflow import delayed
    >>> from lazyflow.graph.plan import in_order
    >>> square = delayed(lambda x: x * x, pure=True)
    >>> order, number = merge(*in_order([square(3), square(3), square(4)]))
    >>> len(order), sorted(number.values())
    (2, [0, 0, 1])
    """
    by_key: dict[str, int] = {}
    kept: list[Task] = []
    numbers: dict[Task, int] = {}
    mergeable: set[Task] = set()
    for task in order:
        options = task._options
        given = options.named
        if given or (
            pure and (options.pure or (options.operator and mergeable.issuperset(task._inputs)))
        ):
            mergeable.add(task)
            at = by_key.setdefault(key_of(task), len(kept))
            if at < len(kept):
                twin = kept[at]
                if (given or twin._options.named) and not same_content(task, twin):
                    raise conflict(twin, task)
                numbers[task] = at
                continue
        numbers[task] = len(kept)
        kept.append(task)
    return kept, numbers


def fuse(plan: Plan) -> None:
    """Join linear chains, and items and attributes with what they are taken from, into units.

    A unit runs on one worker without a look at the queue between its tasks; each of them keeps
    its own events, retries and errors. No unit reaches past a wanted result or across
    different options, and what follows two items of one result may still run in parallel.

    >>> from lazyflow import delayed
    >>> from lazyflow.graph.plan import make_plan
    >>> q, r = delayed(divmod, nout=2)(7, 2)   # the call, then two items of its result
    >>> f = delayed(abs)
    >>> plan = make_plan([delayed(max)(f(f(q)), f(f(r)))])
    >>> plan.heads      # call, item, abs, abs, item, abs, abs, max
    [0, 0, 2, 2, 0, 5, 5, 7]
    """
    tasks, consumers, end = plan.tasks, plan.consumers, plan.end
    heads: list[int] | None = None
    branches: set[int] = set()
    for i, inputs in enumerate(plan.inputs):
        if inputs is None or len(inputs) != 1:
            continue
        source = inputs[0]
        task, before = tasks[i], tasks[source]
        if not before._inputs and is_leaf(before):
            continue
        users = consumers[source]
        if users.__class__ is list:
            if not task._options.operator or end in users:
                continue
            branches.add(i)
        elif source in branches:
            continue
        if task._options is not before._options and _differ(task, before):
            continue
        if heads is None:
            heads = list(range(end))
        heads[i] = heads[source]
    plan.heads = heads


def _differ(task: Task, before: Task) -> bool:
    one, other = task._options, before._options
    if one is OPERATOR:  # nobody said anything about it, and it costs next to nothing
        return False
    return (one.priority, one.resources, one.workers, one.retries, one.crash_retries) != (
        other.priority,
        other.resources,
        other.workers,
        other.retries,
        other.crash_retries,
    )
