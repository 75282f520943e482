"""The rules that every plan obeys: with ``LAZYFLOW_CHECK=1`` they are checked after each pass.

A rule is a sentence and a function that yields violations. `check` raises with all of them, so that
a wrong pass shows with its first plan, not by a run that hangs. Tests always check.

Runs share plans, which consist of lists: to make tuples of them took 3 % of planning. So it is
also checked that a plan is the same at the end of a run as it was at its beginning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from lazyflow.graph import plan as plans
from lazyflow.graph.plan import Plan, differ
from lazyflow.graph.task import Task, is_leaf

Rule = Callable[[Plan], Iterator[str]]

_MOST_SHOWN = 3  # violations of one rule in the message
_FIELDS = sorted(plans._Fields.__slots__)
_MOST_CHECKED = 20_000  # tasks of a plan that is always checked: more would take too long; a guess

#: Every rule: a sentence, and the function that yields its violations.
RULES: dict[str, Rule] = {}


def _rule(sentence: str) -> Callable[[Rule], Rule]:
    def note(rule: Rule) -> Rule:
        RULES[sentence] = rule
        return rule

    return note


def check_always(is_on: bool = True) -> None:
    """Have plans checked after each pass and at the end of each run, or no more.

    Expressions of arrays are checked after each pass, too.
    """
    plans.check_plan = _check_small if is_on else None
    plans.watch_plan = _watch if is_on else None


def _check_small(plan: Plan) -> None:
    if len(plan.tasks) <= _MOST_CHECKED:
        check(plan)


def _watch(plan: Plan) -> Callable[[], AssertionError | None]:
    is_small = len(plan.tasks) <= _MOST_CHECKED
    before = _contents(plan) if is_small else {}

    def edits() -> AssertionError | None:
        now = _contents(plan) if is_small else {}
        edited = [name for name in now if now[name] != before[name]]
        return AssertionError(
            f"a plan of {len(plan.tasks)} tasks was edited while it ran: its {', '.join(edited)}. "
            "Other runs share it: an edited copy is made by a method of Plan"
        ) if edited else None

    return edits


def _contents(plan: Plan) -> dict[str, int]:
    """Return a hash of each field of a plan: of the tasks themselves, not of what they refer to."""
    return {name: hash(_frozen(getattr(plan, name))) for name in _FIELDS}


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([tuple(x) if x.__class__ is list else x for x in value])
    return tuple(value.items()) if isinstance(value, dict) else (
        frozenset(value) if isinstance(value, set) else value)


def check(plan: Plan) -> None:
    """Raise where a plan breaks its promises.

    Raises
    ------
    AssertionError
        A rule is broken; the message has each such rule and the tasks that break it.

    Examples
    --------
    >>> from lazyflow import delayed
    >>> from lazyflow.graph.plan import make_plan
    >>> plan = make_plan([delayed(abs)(delayed(abs)(-1))])
    >>> check(plan)
    >>> plan.needs[1] = 2
    >>> check(plan)
    Traceback (most recent call last):
        ...
    AssertionError: a plan of 2 tasks is broken
    needs counts the inputs of each task, and the outputs: task 1 needs 2, and has 1
    """
    broken = broken_rules(plan)
    if broken:
        raise AssertionError("\n".join([f"a plan of {len(plan.tasks)} tasks is broken", *broken]))


def broken_rules(plan: Plan) -> list[str]:
    """Return a line for each rule that a plan breaks; later rules rely on earlier ones."""
    messages: list[str] = []
    for sentence, rule in RULES.items():
        broken = list(rule(plan))
        if broken:
            shown = "; ".join(broken[:_MOST_SHOWN])
            more = len(broken) - _MOST_SHOWN
            messages.append(f"{sentence}: {shown}" + (f"; and {more} more" if more > 0 else ""))
            if rule in _RELIED_ON:
                break
    return messages


@_rule("the lists have an entry for each task")
def _lengths(plan: Plan) -> Iterator[str]:
    count = len(plan.tasks)
    wanted = {"inputs": count, "consumers": count, "needs": count + 1}
    if plan.end != count:
        yield f"end is {plan.end}, and there are {count} tasks"
    if plan.heads is not None:
        wanted["heads"] = count
    for name, length in wanted.items():
        if len(getattr(plan, name)) != length:
            yield f"{name} has {len(getattr(plan, name))} entries instead of {length}"


@_rule("all numbers are those of tasks")
def _numbers(plan: Plan) -> Iterator[str]:
    for name in ("outputs", "ready", "leaves", "slow", "priorities"):
        for i in getattr(plan, name):
            if not 0 <= i < plan.end:
                yield f"{name} has {i}"
    for i in range(plan.end):
        for j in plan.uses(i):
            if not 0 <= j <= plan.end:
                yield f"result {i} is used by {j}"


_RELIED_ON = (_lengths, _numbers)


@_rule("a task is in a plan once")
def _once(plan: Plan) -> Iterator[str]:
    for task, count in Counter(plan.tasks).items():
        if count > 1:
            yield f"{task._func} is there {count} times"


@_rule("inputs come before their users")
def _order(plan: Plan) -> Iterator[str]:
    for i, inputs in enumerate(plan.inputs):
        for j in inputs or ():
            if not 0 <= j < i:
                yield f"task {i} has input {j}"


@_rule("the inputs are what the task points at, or have its key")
def _inputs(plan: Plan) -> Iterator[str]:
    for i, (task, inputs) in enumerate(zip(plan.tasks, plan.inputs, strict=True)):
        if inputs == ():
            yield f"task {i} has an empty tuple of inputs instead of None"
        if len(inputs or ()) != len(task._inputs):
            yield f"task {i} has {len(inputs or ())} inputs, and points at {len(task._inputs)}"
            continue
        for j, source in zip(inputs or (), task._inputs, strict=True):
            if j < plan.end and not _stands_for(plan.tasks[j], source):
                yield f"task {i} has input {j}, which is another task"


def _stands_for(task: Task, other: Task) -> bool:
    return task is other or (task._key is not None and task._key == other._key)


@_rule("needs counts the inputs of each task, and the outputs")
def _needs(plan: Plan) -> Iterator[str]:
    for i, inputs in enumerate(plan.inputs):
        if plan.needs[i] != len(inputs or ()):
            yield f"task {i} needs {plan.needs[i]}, and has {len(inputs or ())}"
    if plan.needs[plan.end] != len(plan.outputs):
        yield f"the end needs {plan.needs[plan.end]}, and there are {len(plan.outputs)}"


@_rule("consumers are the users of each result, one entry per use, in order")
def _consumers(plan: Plan) -> Iterator[str]:
    uses: list[list[int]] = [[] for _ in range(plan.end)]
    for i, inputs in enumerate(plan.inputs):
        for j in inputs or ():
            if 0 <= j < plan.end:
                uses[j].append(i)
    for j in plan.outputs:
        uses[j].append(plan.end)
    for j, users in enumerate(uses):
        if plan.uses(j) != users:
            yield f"result {j} is used by {users}, and its consumers are {plan.uses(j)}"
        if isinstance(plan.consumers[j], list) and len(users) == 1:
            yield f"result {j} has a list of one consumer"


@_rule("every result is used")
def _used(plan: Plan) -> Iterator[str]:
    for i, users in enumerate(plan.consumers):
        if users is None:
            yield f"task {i}"


@_rule("tasks without inputs are leaves if they are values, else ready, last first")
def _starts(plan: Plan) -> Iterator[str]:
    without = [i for i, inputs in enumerate(plan.inputs) if not inputs]
    leaves = [i for i in without if is_leaf(plan.tasks[i])]
    if plan.leaves != leaves:
        yield f"the leaves are {plan.leaves} instead of {leaves}"
    ready = [i for i in reversed(without) if not is_leaf(plan.tasks[i])]
    if plan.ready != ready:
        yield f"ready are {plan.ready} instead of {ready}"


@_rule("what planning knows of the options is what the tasks say")
def _options(plan: Plan) -> Iterator[str]:
    known = [task._options for task in plan.tasks]
    given = {i: options.priority for i, options in enumerate(known) if options.priority}
    if plan.priorities != given:
        yield f"priorities are {plan.priorities} instead of {given}"
    if plan.may_merge != any(options.pure or options.named for options in known):
        yield f"may_merge is {plan.may_merge}"
    if not plan.slow >= {i for i, options in enumerate(known) if options.mutates}:
        yield "a task that edits its arguments is not slow"


@_rule("a unit is a chain of tasks with equal options, of which only the last is used elsewhere")
def _units(plan: Plan) -> Iterator[str]:
    heads = plan.heads
    for i, head in enumerate(heads or ()):
        if head == i:
            continue
        inputs = plan.inputs[i] or ()
        if not 0 <= head < i or len(inputs) != 1 or not heads or heads[inputs[0]] != head:
            yield f"task {i} is in the unit of {head}"
            continue
        task, before = plan.tasks[i], plan.tasks[inputs[0]]
        users = plan.uses(inputs[0])
        if is_leaf(before) or plan.end in users:
            yield f"task {inputs[0]}, a value or an output, is inside a unit"
        elif users != [i] and not task._options.operator:
            yield f"task {inputs[0]} is inside a unit, and is used by {users}"
        elif task._options is not before._options and differ(task, before):
            yield f"task {i} has other options than task {inputs[0]}"
