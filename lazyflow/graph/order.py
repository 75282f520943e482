r"""The order of tasks: which of those that are ready starts next, so that few values are alive.

A value is alive from the end of its task until its last user has begun. `in_order` numbers the
tasks below the wanted ones as one worker would run them: depth first, and of several inputs the
one with the longest way below it first. Of a tree, few values are alive however many leaves it
has. ::

          6
        /   \
       2     5
      / \   / \
     0   1 3   4

A run starts with the lowest of the ready tasks, and then it has two ways to go on:

newest first
    The users of a result that are ready start right after it. It is the quickest way, as the
    ready tasks are a stack, and the best one where a value is read several times: each block b is
    reduced to its sum and to its maximum before the next one is made. ::

        sum   max
         | \ / |
         | / \ |
         b     c

by number
    The ready task with the lowest number starts, which is what the next result needs. It is the
    best way where values are cut into many pieces, each for another result: a halo of neighbours
    in two dimensions, a product of matrices, a shuffle. Newest first would cut a block into all
    of them, and the pieces would wait for those of other blocks.

Which of them keeps fewer values alive is counted for each plan in which values are cut. dask
numbers tasks by a longer look at the graph instead (`dask.order`): it takes seven times as long as
all that makes a plan here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyflow.graph.task import Task, height_of

_MANY = 8  # so many values with several users are the least that count as cut
_PIECES = 4  # and so many users they have, on average: of fewer, both orders keep about as many
_SHARE = 4  # one in so many tasks uses one of them
_WORTH = 0.8  # by number has to keep fewer than this times the values: its queue is slower


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


def is_better_by_number(plan: Any) -> bool:
    """Return whether a plan keeps clearly fewer values alive by number than newest first."""
    users = [each for each in plan.consumers if each.__class__ is list]
    uses = sum(map(len, users))
    if len(users) < _MANY or uses < _PIECES * len(users) or uses * _SHARE < len(plan):
        return False
    return most_by_number(plan) < _WORTH * most_newest_first(plan)


def most_by_number(plan: Any) -> int:
    """Return how many values are alive at most when one worker runs a plan by number."""
    left = _uses(plan)
    alive = most = len(plan.leaves)
    is_leaf = set(plan.leaves).__contains__
    for i, numbers in enumerate(plan.inputs):
        if numbers is None and is_leaf(i):
            continue
        alive += 1
        if alive > most:
            most = alive
        for j in numbers or ():
            uses = left[j] = left[j] - 1
            if not uses:
                alive -= 1
    return most


def most_newest_first(plan: Any) -> int:
    """Return how many values are alive at most when one worker starts users of results first."""
    inputs, consumers = plan.inputs, plan.consumers
    left, needs = _uses(plan), plan.needs.copy()
    needs[plan.end] = -1  # it is no task
    alive = most = len(plan.leaves)
    ready: list[int] = []
    for leaf in plan.leaves:
        ready += _ready_after(plan.uses(leaf), needs)
    stack = sorted([*plan.ready, *ready], reverse=True)
    while stack:
        i = stack.pop()
        alive += 1
        if alive > most:
            most = alive
        for j in inputs[i] or ():
            uses = left[j] = left[j] - 1
            if not uses:
                alive -= 1
        users = consumers[i]
        if users.__class__ is int:
            missing = needs[users] = needs[users] - 1
            if not missing:
                stack.append(users)
        else:
            stack += _ready_after(users, needs)
    return most


def _uses(plan: Any) -> list[int]:
    return [len(users) if users.__class__ is list else 1 for users in plan.consumers]


def _ready_after(users: list[int], needs: list[int]) -> list[int]:
    """Count a result in at its users; return those that are ready, the first one last."""
    ready = []
    for user in users:
        missing = needs[user] = needs[user] - 1
        if not missing:
            ready.append(user)
    ready.reverse()
    return ready
