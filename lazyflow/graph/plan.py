"""From a graph to a plan: the same tasks as numbers and lists, which is what schedulers run.

`in_order` walks from the wanted tasks to the leaves without recursion and numbers each task in
the order in which one worker would run them: depth first, the higher input first, so that few
values are alive at once. What is not reached is not in the plan: unneeded tasks are culled by
that. The passes of `lazyflow.graph.passes`, where `make_plan` is, merge and fuse the rest.

A plan never changes once it is made, and it holds no state of any run: several threads may run
one plan at once, and a trace runs one again and again.

    >>> from lazyflow import delayed
    >>> from lazyflow.graph.passes import make_plan
    >>> add = delayed(lambda x, y: x + y)
    >>> a, b = delayed(abs)(-1), delayed(abs)(-2)
    >>> plan = make_plan([add(add(a, b), b)])
    >>> plan.inputs                     # numbers of the inputs of tasks 0, 1, 2, 3
    [None, None, (0, 1), (2, 1)]
    >>> plan.consumers                  # 4 is the end of the run
    [2, [2, 3], 3, 4]
    >>> plan.needs, plan.ready
    ([0, 0, 2, 2, 1], [1, 0])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from lazyflow.graph.items import Item
from lazyflow.graph.options import DEFAULT, OPERATOR, Options
from lazyflow.graph.task import HELD, VALUE, Task, height_of

Inputs = list[tuple[int, ...] | None]
Consumers = list[int | list[int] | None]


class _Fields:
    """The fields of a plan, while they are filled in."""

    __slots__ = (
        "consumers",
        "end",
        "has_scheduler_options",
        "heads",
        "inputs",
        "leaves",
        "may_merge",
        "needs",
        "outputs",
        "priorities",
        "ready",
        "slow",
        "tasks",
    )

    tasks: list[Task]
    end: int
    inputs: Inputs
    consumers: Consumers
    needs: list[int]
    outputs: list[int]
    ready: list[int]
    leaves: list[int]
    slow: set[int]
    priorities: dict[int, int]
    heads: list[int] | None
    may_merge: bool
    has_scheduler_options: bool


class Plan(_Fields):
    """Parallel lists over the tasks of a graph; a task's number is its index in all of them.

    Parameters
    ----------
    tasks
        The tasks, each after its inputs.
    inputs
        The numbers of each task's inputs, repeated when used twice; None where it has none.
    outputs
        The numbers of the wanted tasks, in the order asked for.

    Attributes
    ----------
    tasks, inputs, outputs
        As given.
    end
        The number of tasks. It also stands for the end of the run, which uses the outputs.
    consumers
        The users of each result: one number, or a list of them, one per use.
    needs
        How many inputs have to arrive before a task may run; the last entry is for the end.
    ready
        The tasks without inputs, last first: a stack.
    leaves
        The values among the tasks; a run delivers them when it starts.
    slow
        The tasks with options that the quick path of a run does not serve.
    priorities
        The priorities that were given, by task number.
    heads
        The first task of each task's fused unit, or None when nothing was fused.
    may_merge
        Whether a task is pure or has a key of its own, so that equal ones may be there.
    has_scheduler_options
        Whether a task has an option that not every scheduler follows.
    """

    __slots__ = ()

    def __new__(cls, tasks: list[Task], inputs: Inputs, outputs: list[int]) -> Plan:
        plan: Any = object.__new__(_Fields)
        plan.tasks, plan.inputs, plan.outputs = tasks, inputs, outputs
        plan.end = end = len(tasks)
        plan.consumers = [None] * end
        plan.needs = [0] * (end + 1)
        plan.ready, plan.leaves = [], []
        plan.slow, plan.priorities, plan.heads = set(), {}, None
        plan.may_merge = plan.has_scheduler_options = False
        _link(plan)
        plan.__class__ = cls  # last: a plan refuses assignment
        counted: Plan = plan
        return counted

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a plan does not change, so its {name} can't be set")

    def __len__(self) -> int:
        return self.end

    def uses(self, i: int) -> list[int]:
        """Return the numbers of the tasks that use result `i`, one per use."""
        users = self.consumers[i]
        if users is None:
            return []
        return users if isinstance(users, list) else [users]

    def fused(self, heads: list[int] | None) -> Plan:
        """Return this plan with other units."""
        return self if heads == self.heads else self._changed(self.tasks, heads)

    def with_tasks(self, tasks: list[Task]) -> Plan:
        """Return this plan with other tasks, which differ in their literals alone."""
        return self._changed(tasks, self.heads)

    def _changed(self, tasks: list[Task], heads: list[int] | None) -> Plan:
        plan: Any = object.__new__(_Fields)
        plan.tasks, plan.inputs, plan.outputs = tasks, self.inputs, self.outputs
        plan.end, plan.consumers, plan.needs = self.end, self.consumers, self.needs
        plan.ready, plan.leaves, plan.slow = self.ready, self.leaves, self.slow
        plan.priorities, plan.may_merge = self.priorities, self.may_merge
        plan.has_scheduler_options = self.has_scheduler_options
        plan.heads = heads
        plan.__class__ = Plan
        changed: Plan = plan
        return changed


def _link(plan: Any) -> None:
    """Fill in what follows from the tasks of a plan, their inputs and its outputs."""
    inputs, consumers, needs = plan.inputs, plan.consumers, plan.needs
    counted: list[int] = []
    for i, task in enumerate(plan.tasks):
        options = task._options
        if options is not DEFAULT and options is not OPERATOR and options.special:
            _note_options(plan, i, options, counted)
        numbers = inputs[i]
        if numbers is None:
            func = task._func
            (plan.leaves if func is VALUE or func is HELD else plan.ready).append(i)
            continue
        needs[i] = len(numbers)
        for j in numbers:
            users = consumers[j]
            if users is None:
                consumers[j] = i
            elif users.__class__ is list:
                users.append(i)
            else:
                consumers[j] = [users, i]
    end = plan.end
    needs[end] = len(plan.outputs)
    for j in plan.outputs:
        users = consumers[j]
        if users is None:
            consumers[j] = end
        elif users.__class__ is list:
            users.append(end)
        else:
            consumers[j] = [users, end]
    plan.ready.reverse()
    plan.slow.update(i for i in counted if not _is_taken_apart(plan, i))


def _note_options(plan: Any, i: int, options: Options, counted: list[int]) -> None:
    if options.pure or options.named:
        plan.may_merge = True
    if options.mutates:
        plan.slow.add(i)
    if options.nout is not None:
        counted.append(i)
    if options.priority:
        plan.priorities[i] = options.priority
    if (
        options.priority or options.resources or options.workers is not None
        or options.crash_retries is not None
    ):
        plan.has_scheduler_options = True


def _is_taken_apart(plan: Any, i: int) -> bool:
    """Tell whether only items of result `i` are used: taking them checks its length."""
    end, tasks = plan.end, plan.tasks
    return all(j != end and tasks[j]._func.__class__ is Item for j in Plan.uses(plan, i))


def in_order(wanted: Sequence[Task]) -> tuple[list[Task], dict[Task, int]]:
    """Return the tasks below `wanted`, each after its inputs, depth first; and their numbers.

    Each task is visited twice: at first its inputs go on the stack above it, and when it is on
    top again all of them have numbers.
    """
    order: list[Task] = []
    number: dict[Task, int] = {}
    stack = list(wanted)
    stack.reverse()
    met = number.get
    while stack:
        task = stack[-1]
        at = met(task)
        if at is None:
            inputs = task._inputs
            if inputs:
                number[task] = -1
                if len(inputs) == 2:
                    first, second = inputs
                    if first._height < second._height:
                        stack.append(first)
                        stack.append(second)
                    else:
                        stack.append(second)
                        stack.append(first)
                    continue
                if len(inputs) > 1:
                    lowest_first = list(inputs)
                    lowest_first.reverse()  # of equally high ones the first ends on top
                    lowest_first.sort(key=height_of)
                    stack.extend(lowest_first)
                    continue
                if inputs[0] not in number:
                    stack.append(inputs[0])
                    continue
        elif at >= 0:
            stack.pop()
            continue
        stack.pop()
        number[task] = len(order)
        order.append(task)
    return order, number


def plan_of(tasks: list[Task], number: dict[Task, int], wanted: Sequence[Task]) -> Plan:
    """Return the plan of some tasks, as they are; `number` has the index of each."""
    number_of = number.__getitem__
    inputs = [tuple(map(number_of, t._inputs)) if t._inputs else None for t in tasks]
    return Plan(tasks, inputs, [number[t] for t in wanted])
