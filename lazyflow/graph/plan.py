"""From a graph to a plan: the same tasks as numbers and lists, which is what schedulers run.

`make_plan` walks from the wanted tasks to the leaves without recursion and numbers each task
in the order in which one worker would run them: depth first, the higher input first, so that
few values are alive at once. What is not reached is not in the plan (culling). The passes of
pipeline.py then merge and fuse.

A plan never changes once it is made and holds nothing of any run: several threads may run one
plan at once, and a trace runs one again and again.

    >>> from lazyflow import delayed
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
from typing import TYPE_CHECKING

from lazyflow.graph.arguments import height_of
from lazyflow.graph.items import Item
from lazyflow.graph.options import DEFAULT, OPERATOR

if TYPE_CHECKING:
    from lazyflow.graph.task import Task

Consumers = list[int | list[int] | None]


class Plan:
    """Parallel lists over the tasks of a graph; a task's number is its place in all of them.

    tasks
        The tasks, each after its inputs.
    inputs
        Numbers of each task's inputs, repeated when used twice; None where it has none.
    consumers
        Who uses each result: one number, or a list of them, one per use. The number
        ``end = len(tasks)`` stands for the end of the run and consumes the wanted results.
    needs
        How many inputs have to arrive before a task may run; one more entry for the end.
    outputs
        Numbers of the wanted tasks, in the order asked for.
    ready
        Tasks without inputs, last first: a stack.
    leaves
        Values rather than calls; a run delivers them when it starts.
    careful
        Tasks with options that the quick path of a run can't serve.
    priorities
        By task number, where one was said; else empty.
    heads
        The first task of each task's fused unit, or None when nothing was fused.
    """

    __slots__ = (
        "_counted",
        "careful",
        "consumers",
        "end",
        "heads",
        "inputs",
        "leaves",
        "merging",
        "needs",
        "outputs",
        "priorities",
        "ready",
        "tasks",
        "unusual",
    )

    def __init__(self, tasks: list[Task], number: dict[Task, int], wanted: Sequence[Task]) -> None:
        self.tasks = tasks
        self.end = end = len(tasks)
        self.inputs: list[tuple[int, ...] | None] = [None] * end
        self.consumers: Consumers = [None] * end
        self.needs = [0] * (end + 1)
        self.ready: list[int] = []
        self.leaves: list[int] = []
        self.careful: set[int] = set()
        self.priorities: dict[int, int] = {}
        self.heads: list[int] | None = None
        self.merging = False  # some task has a key of its own, so equal ones may be there
        self._counted: list[int] = []  # tasks whose number of results was said
        self.unusual = False  # some option is there that not every scheduler honours
        self.outputs = [number[t] for t in wanted]
        self._link(number)
        self.ready.reverse()
        self.careful.update(i for i in self._counted if not self._is_taken_apart(i))

    def _link(self, number: dict[Task, int]) -> None:
        from lazyflow.graph.task import HELD, VALUE

        all_inputs, consumers, needs, ready = self.inputs, self.consumers, self.needs, self.ready
        for i, task in enumerate(self.tasks):
            if task._options is not DEFAULT:
                self._note_options(i, task)
            inputs = task._inputs
            if not inputs:
                func = task._func
                (self.leaves if func is VALUE or func is HELD else ready).append(i)
                continue
            numbers = all_inputs[i] = tuple([number[x] for x in inputs])
            needs[i] = len(numbers)
            for j in numbers:
                users = consumers[j]
                if users is None:
                    consumers[j] = i
                elif users.__class__ is list:
                    users.append(i)
                else:
                    consumers[j] = [users, i]  # type: ignore[list-item]
        end = self.end
        needs[end] = len(self.outputs)
        for j in self.outputs:
            users = consumers[j]
            if users is None:
                consumers[j] = end
            elif users.__class__ is list:
                users.append(end)
            else:
                consumers[j] = [users, end]  # type: ignore[list-item]

    def _note_options(self, i: int, task: Task) -> None:
        options = task._options
        if options is OPERATOR or not options.special:
            return
        if options.pure or options.named:
            self.merging = True
        if options.mutates:
            self.careful.add(i)
        if options.nout is not None:
            self._counted.append(i)
        if options.priority:
            self.priorities[i] = options.priority
        if (
            options.priority or options.resources or options.workers is not None
            or options.crash_retries is not None
        ):
            self.unusual = True

    def _is_taken_apart(self, i: int) -> bool:
        """Tell whether only items of result `i` are used: taking them checks its length."""
        users = self.uses(i)
        return self.end not in users and all(
            self.tasks[user]._func.__class__ is Item for user in users
        )

    def __len__(self) -> int:
        return self.end

    def uses(self, i: int) -> list[int]:
        """Return the numbers of the tasks that use result `i`, one per use."""
        users = self.consumers[i]
        if users is None:
            return []
        return users if isinstance(users, list) else [users]


def in_order(wanted: Sequence[Task]) -> tuple[list[Task], dict[Task, int]]:
    """Return the tasks below `wanted`, each after its inputs, depth first; and their numbers.

    Each task is seen twice: when it is first met its inputs go on the stack above it, and when
    it is on top again they are all numbered.
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


def make_plan(wanted: Sequence[Task], optimize: bool = True) -> Plan:
    """Make the plan that computes `wanted`.

    Raises
    ------
    KeyConflict
        Two different tasks carry one key.
    """
    from lazyflow.graph.passes import fuse, merge

    order, number = in_order(wanted)
    plan = Plan(order, number, wanted)
    if plan.merging:
        order, number = merge(order, number, pure=optimize)
        plan = Plan(order, number, wanted)
    if optimize:
        fuse(plan)
    return plan
