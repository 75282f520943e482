"""The passes between a graph and its plan, in one list, and `make_plan`, which runs them.

Each pass takes a plan and returns one: the same one where it has nothing to do, so running it
again changes nothing. Culling needs no pass: `in_order` reaches only what is wanted. Clustering
(`lazyflow.graph.grouping`) is done by the schedulers for which a message is expensive, since it
depends on measured costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter

from lazyflow.graph.keys import conflict, key_of, same_content
from lazyflow.graph.options import OPERATOR
from lazyflow.graph.plan import Inputs, Plan, in_order, plan_of
from lazyflow.graph.task import Task, is_leaf


class PlanPass:
    """One rewriting of plans.

    Attributes
    ----------
    name
        What the pass does, as a verb.
    apply
        Returns the rewritten plan; its second argument tells whether to optimize.
    explain
        Says in words and numbers what the pass did to the first plan to get the second.
    """

    __slots__ = ("apply", "explain", "name")

    def __init__(
        self, name: str, apply: Callable[[Plan, bool], Plan],
        explain: Callable[[Plan, Plan], str],
    ) -> None:
        self.name = name
        self.apply = apply
        self.explain = explain


def make_plan(wanted: Sequence[Task], optimize: bool = True) -> Plan:
    """Return the plan that computes the wanted tasks.

    Raises
    ------
    KeyConflict
        Two different tasks carry one key.
    """
    plan = plan_of(*in_order(wanted), wanted)
    for each in PASSES:
        plan = each.apply(plan, optimize)
    return plan


class Explanation(str):
    """A text that a prompt or a notebook shows as ``print`` does, line by line."""

    __slots__ = ()
    __repr__ = str.__str__


def explain_plan(wanted: Sequence[Task]) -> str:
    """Return what each pass does to the plan that computes the wanted tasks.

    >>> from lazyflow import delayed
    >>> square = delayed(lambda x: x * x, pure=True)
    >>> explain_plan([delayed(max)(abs(square(3)), abs(square(3)))])
    graph: 5 tasks, 0 of them values; 1 result is wanted
    merge: 2 of 5 tasks are equal to others and join them
    fuse: 3 tasks run as 2 units, the longest of 2 tasks
    """
    plan = plan_of(*in_order(wanted), wanted)
    outputs = _counted(len(plan.outputs), "result is", "results are")
    tasks, values = _counted(len(plan)), len(plan.leaves)
    words = [f"graph: {tasks}, {values:,} of them values; {outputs} wanted"]
    for each in PASSES:
        before, plan = plan, each.apply(plan, True)
        words.append(f"{each.name}: {each.explain(before, plan)}")
    return Explanation("\n".join(words))


def _counted(count: int, one: str = "task", many: str = "tasks") -> str:
    return f"{count:,} {one if count == 1 else many}"


def merge(plan: Plan, optimize: bool = True) -> Plan:
    """Let tasks with one key be one task: equal pure calls, and equal calls under a given key.

    Operators on such tasks merge too. Other tasks stay apart: a hash for each of them would cost
    more than merging saves. ``optimize=False`` merges tasks with given keys only. Raises
    KeyConflict when one key stands for two different calls.

    >>> from lazyflow import delayed
    >>> square = delayed(lambda x: x * x, pure=True)
    >>> wanted = [square(3), square(3), square(4)]
    >>> merge(plan_of(*in_order(wanted), wanted)).outputs
    [0, 0, 1]
    """
    if not plan.may_merge:
        return plan
    by_key: dict[str, int] = {}
    kept: list[Task] = []
    inputs: Inputs = []
    numbers: list[int] = []  # of each task among the kept ones
    mergeable: set[int] = set()
    for i, task in enumerate(plan.tasks):
        options = task._options
        given = options.named
        if given or (
            optimize
            and (
                options.pure
                or (options.operator and mergeable.issuperset(plan.inputs[i] or ()))
            )
        ):
            mergeable.add(i)
            at = by_key.setdefault(key_of(task), len(kept))
            if at < len(kept):
                twin = kept[at]
                if (given or twin._options.named) and not same_content(task, twin):
                    raise conflict(twin, task)
                numbers.append(at)
                continue
        numbers.append(len(kept))
        kept.append(task)
        mine = plan.inputs[i]
        inputs.append(mine and tuple([numbers[j] for j in mine]))
    if len(kept) == len(plan):
        return plan
    return Plan(kept, inputs, [numbers[i] for i in plan.outputs])


def _explain_merge(before: Plan, after: Plan) -> str:
    if not before.may_merge:
        return "no task is pure or has a key of its own"
    joined = len(before) - len(after)
    if not joined:
        return f"none of {_counted(len(before))} is equal to another one"
    is_equal = "is equal to another one and joins it" if joined == 1 else (
        "are equal to others and join them"
    )
    return f"{joined:,} of {_counted(len(before))} {is_equal}"


def fuse(plan: Plan, optimize: bool = True) -> Plan:
    """Join linear chains, and items and attributes with what they are taken from, into units.

    A unit runs on one worker without a look at the queue between its tasks; each of them keeps
    its own events, retries and errors. No unit extends past a wanted result or across different
    options, and what follows two items of one result may still run in parallel.

    >>> from lazyflow import delayed
    >>> q, r = delayed(divmod, nout=2)(7, 2)   # the call, then two items of its result
    >>> f = delayed(abs)
    >>> plan = make_plan([delayed(max)(f(f(q)), f(f(r)))])
    >>> plan.heads      # call, item, abs, abs, item, abs, abs, max
    [0, 0, 2, 2, 0, 5, 5, 7]
    """
    if not optimize:
        return plan
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
        if task._options is not before._options and differ(task, before):
            continue
        if heads is None:
            heads = list(range(end))
        heads[i] = heads[source]
    return plan.fused(heads)


#: Returns the options that all tasks of one unit have.
_of_units = attrgetter("priority", "resources", "workers", "retries", "crash_retries")


def differ(task: Task, before: Task) -> bool:
    """Tell whether the options of a task keep it out of the unit of its input."""
    if task._options is OPERATOR:  # no option was given, and it costs next to nothing
        return False
    return _of_units(task._options) != _of_units(before._options)


def _explain_fuse(before: Plan, after: Plan) -> str:
    if after.heads is None:
        return "no task runs in one unit with its input"
    sizes = Counter(after.heads)
    units = _counted(len(sizes), "unit", "units")
    return f"{_counted(len(after))} run as {units}, the longest of {max(sizes.values()):,} tasks"


#: Every pass, in the order in which they run.
PASSES = [
    PlanPass("merge", merge, _explain_merge),
    PlanPass("fuse", fuse, _explain_fuse),
]
