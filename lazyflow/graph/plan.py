"""From a graph to a plan: the same tasks as numbers and lists, which schedulers run.

`in_order` walks from the wanted tasks to the leaves and numbers each task in the order in
which one worker would run them; tasks that it does not reach are not in the plan. The passes, which
`make_plan` runs, merge and fuse tasks, and `choose_order` decides which ready task starts next.

A plan never changes once it is made, and it holds no state of any run: several threads may run
one plan at once, and a trace runs one again and again.

    >>> from lazyflow import delayed
    >>> from lazyflow.graph.plan import make_plan
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

import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from os import urandom
from typing import Any, NoReturn

from lazyflow.errors import KeyConflict
from lazyflow.finalizers import WeakTable
from lazyflow.graph.items import Item
from lazyflow.graph.kinds import LAZY, kinds
from lazyflow.graph.options import DEFAULT, OPERATOR, Options
from lazyflow.graph.task import (
    HELD,
    VALUE,
    Task,
    function_name,
    height_of,
    is_leaf,
    place_text,
    set_key,
)

#: Called with each plan after each pass, where `spec.check_always` has set it.
check_plan: Callable[[Plan], None] | None = None
#: Called with the plan of each run as the run begins, where `spec.check_always` has set it. It
#: returns a function that is called as the run ends: that one returns the error to end with if the
#: plan was edited meanwhile, else None.
watch_plan: Callable[[Plan], Callable[[], AssertionError | None]] | None = None

_logs: list[Any] = []


def pass_log() -> Any:
    """Return the log that gets a line for each pass, at level DEBUG; None if it takes none.

    A program that has not imported `logging`, which takes 5 ms, has nothing that listens.
    """
    if not _logs:
        made = getattr(sys.modules.get("logging"), "getLogger", None)  # it may just be imported
        if made is None:
            return None
        _logs.append(made("lazyflow.passes"))
    return _logs[0] if _logs[0].isEnabledFor(10) else None


def log_pass(log: Any, name: str, explain: Callable[..., str], *given: Any) -> None:
    """Write the line of one pass. To find the words may take as long as the pass itself."""
    with suppress(Exception):  # also of the program's handlers: a diagnostic changes no result
        try:
            words = explain(*given)
        except Exception:
            log.exception("%s: what it did can't be told", name)
        else:
            log.debug("%s: %s", name, words)


Inputs = list[tuple[int, ...] | None]
Consumers = list[int | list[int] | None]


class _Fields:
    """The fields of a plan, while they are filled in."""

    __slots__ = (
        "by_number",
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
    by_number: bool
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
    by_number
        Whether the ready task with the lowest number goes first; else the one made ready last.
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
        plan.may_merge = plan.has_scheduler_options = plan.by_number = False
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
        return self if heads == self.heads else self._changed(heads=heads)

    def with_tasks(self, tasks: list[Task]) -> Plan:
        """Return this plan with other tasks, which differ in their literals alone."""
        return self._changed(tasks=tasks)

    def run_by_number(self, by_number: bool) -> Plan:
        """Return this plan with another order of ready tasks."""
        return self if by_number == self.by_number else self._changed(by_number=by_number)

    def _changed(self, **fields: Any) -> Plan:
        plan: Any = object.__new__(_Fields)
        for name in _Fields.__slots__:
            setattr(plan, name, fields.get(name, getattr(self, name)))
        plan.__class__ = Plan
        changed: Plan = plan
        return changed


def _link(plan: Any) -> None:
    """Fill in the fields that follow from the tasks of a plan, their inputs and its outputs."""
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


# -- the order of tasks: which of those that are ready starts next, so that few values are alive --
#
# A value is alive from the end of its task until its last user has begun. `in_order` numbers the
# tasks below the wanted ones as one worker would run them: depth first, and of several inputs the
# one with the longest way below it first. Of a tree, few values are alive however many leaves it
# has:
#
#           6
#         /   \
#        2     5
#       / \   / \
#      0   1 3   4
#
# A run starts with the lowest of the ready tasks, and then it has two ways to go on:
#
# newest first
#     The users of a result that are ready start right after it. It is the quickest way, as the
#     ready tasks are a stack, and the best one where a value is read several times: each block b is
#     reduced to its sum and to its maximum before the next one is made:
#
#         sum   max
#          | \ / |
#          | / \ |
#          b     c
#
# by number
#     The ready task with the lowest number starts, which is what the next result needs. It is the
#     best way where values are cut into many pieces, each for another result: a halo of neighbours
#     in two dimensions, a product of matrices, a shuffle. Newest first would cut a block into all
#     of them, and the pieces would wait for those of other blocks.
#
# Which of them keeps fewer values alive is counted for each plan in which values are cut. dask
# numbers tasks by a longer look at the graph instead (`dask.order`): it takes seven times as long
# as all that makes a plan here.

_MANY = 8  # so many values with several users are the least that count as cut; a guess
_PIECES = 4  # so many users they have, on average: of fewer, both orders keep as many; a guess
_SHARE = 4  # one in so many tasks uses one of them; a guess
_WORTH = 0.8  # by number has to keep less than this share of them: its queue is slower; a guess


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


def is_better_by_number(plan: Plan) -> bool:
    """Return whether a plan keeps clearly fewer values alive by number than newest first."""
    why_not, _, _ = _cuts(plan)
    return not why_not and most_by_number(plan) < _WORTH * most_newest_first(plan)


def _cuts(plan: Plan) -> tuple[str, int, int]:
    """Return why values do not count as cut ("": they do), those with several users, and uses."""
    shared = [each for each in plan.consumers if each.__class__ is list]
    uses = sum(map(len, shared))
    if len(shared) < _MANY:
        why_not = "few"
    elif uses < _PIECES * len(shared):
        why_not = "whole"
    else:
        why_not = "rare" if uses * _SHARE < len(plan) else ""
    return why_not, len(shared), uses


def most_by_number(plan: Plan) -> int:
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


def most_newest_first(plan: Plan) -> int:
    """Return how many values are alive at most when one worker starts users of results first."""
    inputs: Any = plan.inputs
    consumers: Any = plan.consumers
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


def plan_of(tasks: list[Task], number: dict[Task, int], wanted: Sequence[Task]) -> Plan:
    """Return the plan of some tasks, as they are; `number` has the index of each."""
    number_of = number.__getitem__
    inputs = [tuple(map(number_of, t._inputs)) if t._inputs else None for t in tasks]
    return Plan(tasks, inputs, [number[t] for t in wanted])


# -- names of tasks as text, made only when something needs one ---------------------------
#
# A key that the user gave is used as it is. A pure task, and an operator on anything, is named by
# its function, its arguments and the keys of its inputs; every other task gets a name that no
# other task has. Once made, a key stays with its task, also through pickle.

#: The future of a task under a given key -> the task, while it lives, and its content.
_held: WeakTable[Any, tuple[weakref.ref[Task], str]] = WeakTable()

_naming = threading.Lock()  # two threads that ask at once get one name


def key_of(task: Task) -> str:
    """Return the key of a task; it and the keys that it is derived from are made when needed.

    >>> from lazyflow import delayed
    >>> key_of(delayed(5, name="five"))
    'five'
    >>> f = delayed(abs, pure=True)
    >>> key_of(f(-1)) == key_of(f(-1)), key_of(f(-1)) == key_of(f(-2))
    (True, False)
    """
    stack = [task]
    while stack:
        top = stack[-1]
        if top._key is not None:
            stack.pop()
        elif top._options.pure or top._options.operator:
            unnamed = [x for x in top._inputs if x._key is None]
            if unnamed:
                stack.extend(unnamed)
            else:
                set_key(top, f"{_prefix(top)}-{content_token(top)}")
        else:
            with _naming:
                if top._key is None:
                    set_key(top, f"{_prefix(top)}-{urandom(16).hex()}")
    assert task._key is not None
    return task._key


def _prefix(task: Task) -> str:
    """Return the word a key starts with; not the label, which equal tasks need not share."""
    return type(task._args[0]).__name__ if is_leaf(task) else function_name(task._func)


class _Input:
    """Stands among the arguments for the value of an input, whose key is its content."""

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key

    def __lazyflow_tokenize__(self) -> str:
        return self.key


def content_token(task: Task) -> str:
    """Return the hash of a task's function, arguments and input keys."""
    from lazyflow.graph.tokens.tokenize import tokenize, unique_token

    if task._func is HELD:
        held = _held.get(task._args[0])
        return held[1] if held is not None else unique_token()
    inputs = [key_of(x) for x in task._inputs]
    binder = task._bind
    if binder is None:
        literals = [None] * len(inputs) if inputs else list(task._args)
        return tokenize(task._func, literals, list(range(len(inputs))), inputs)
    if not binder.makers and not binder.names:
        places = [position for position, _ in binder.holes]  # type: ignore[misc]
        return tokenize(task._func, binder.template, places, inputs)
    try:  # filled as for a run, since the order of sets and keywords must not count
        args, kwargs = binder.fill([_Input(key) for key in inputs])
    except Exception:  # a container of the user's that takes only real values
        parts = (binder.template, binder.holes, binder.makers, binder.n_positional, binder.names)
        return tokenize(task._func, parts, inputs)
    return tokenize(task._func, args, kwargs)


def hold_content(future: Any, task: Task) -> None:
    """Note that the future of a task's value has the content of the task, which has a given key."""
    try:
        token = content_token(task)
    except Exception:  # a __lazyflow_tokenize__ that raises must not stop a persist
        token = f"unknown-{id(future)}"
    _held[future] = (weakref.ref(task), token)


def _origin(task: Task) -> Task | None:
    held = _held.get(task._args[0]) if task._func is HELD else None
    return task if held is None else held[0]()


def same_content(one: Task, other: Task) -> bool:
    """Tell whether two tasks that carry one key are the same call on equal arguments."""
    origin = _origin(one)
    if origin is not None and origin is _origin(other):
        return True
    return content_token(one) == content_token(other)


def conflict(one: Task, other: Task) -> KeyConflict:
    """Return the error for two different tasks under one key."""

    def line_of(task: Task) -> str:
        what = "value" if is_leaf(task) else function_name(task._func)
        return f"  {what}, made at {place_text(task)}"

    return KeyConflict(
        f"the key {key_of(one)!r} was given to two different tasks:\n"
        f"{line_of(one)}\n{line_of(other)}\n"
        "Give each its own dask_key_name= (or name=); for a label that several tasks may share, "
        "use lazyflow.annotate(name=...)."
    )


# -- the passes ---------------------------------------------------------------------------
#
# Each pass takes a plan and returns one: the same one where it has nothing to do, so running it
# again changes nothing. Culling needs no pass: `in_order` reaches only wanted tasks. Clustering
# (`lazyflow.graph.grouping`) is done by the schedulers for which a message is expensive, since it
# depends on measured costs.


class PlanPass:
    """One rewriting of plans.

    Attributes
    ----------
    name
        A verb, such as merge.
    apply
        Returns the rewritten plan; its second argument tells whether to optimize.
    explain
        Describes in words and numbers how the second plan differs from the first.
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
    AssertionError
        A pass has broken the plan: ``LAZYFLOW_CHECK=1`` is set.
    """
    plan = plan_of(*in_order(wanted), wanted)
    log = pass_log() if optimize else None
    for rewrite in PASSES:
        before, plan = plan, rewrite.apply(plan, optimize)
        if log is not None:
            log_pass(log, rewrite.name, rewrite.explain, before, plan)
        if check_plan is not None:
            check_plan(plan)
    return plan


def task_of(lazy: Any) -> Task:
    """Return the task of a lazy value, or of a collection as a whole."""
    task: Task = lazy if kinds[type(lazy)] == LAZY else lazy.__lazyflow_value__()
    return task


def plan_of_lazy(lazy: Any) -> Plan:
    """Return the plan of a lazy value, or of a collection, that a task returned."""
    return make_plan([task_of(lazy)])


class Explanation(str):
    """A text that a prompt or a notebook shows as ``print`` does, line by line."""

    __slots__ = ()
    __repr__ = str.__str__


def explain_plan(wanted: Sequence[Task]) -> str:
    """Describe the effect of each pass on the plan that computes the wanted tasks.

    >>> from lazyflow import delayed
    >>> square = delayed(lambda x: x * x, pure=True)
    >>> explain_plan([delayed(max)(abs(square(3)), abs(square(3)))])
    graph: 5 tasks, 0 of them values; 1 result is wanted
    merge: 2 of 5 tasks are equal to others and join them
    fuse: 3 tasks run as 2 units, the longest of 2 tasks
    order: the users of a result start right after it: 1 result has several users, not 8 or more
    """
    plan = plan_of(*in_order(wanted), wanted)
    outputs = counted(len(plan.outputs), "result is", "results are")
    tasks, values = counted(len(plan)), len(plan.leaves)
    words = [f"graph: {tasks}, {values:,} of them values; {outputs} wanted"]
    for rewrite in PASSES:
        before, plan = plan, rewrite.apply(plan, True)
        words.append(f"{rewrite.name}: {rewrite.explain(before, plan)}")
    return Explanation("\n".join(words))


def counted(count: int, singular: str = "task", plural: str = "tasks") -> str:
    """Return a number with its noun."""
    return f"{count:,} {singular if count == 1 else plural}"


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
        return f"none of {counted(len(before))} is equal to another one"
    is_equal = "is equal to another one and joins it" if joined == 1 else (
        "are equal to others and join them"
    )
    return f"{joined:,} of {counted(len(before))} {is_equal}"


def fuse(plan: Plan, optimize: bool = True) -> Plan:
    """Join linear chains, and objects with items and attributes taken from them, into units.

    A unit runs on one worker without a look at the queue between its tasks; each of them keeps
    its own events, retries and errors. No unit extends past a wanted result or across different
    options, and users of two items of one result may still run in parallel.

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
    if task._options is OPERATOR:  # without options, and very cheap
        return False
    return _of_units(task._options) != _of_units(before._options)


def _explain_fuse(before: Plan, after: Plan) -> str:
    if after.heads is None:
        sources = [j for i in after.inputs if i is not None and len(i) == 1 for j in i]
        sources = [j for j in sources if not is_leaf(after.tasks[j])]
        if not sources:
            return "no task has another one as its only input"
        shared = sum([after.consumers[j].__class__ is list for j in sources])
        return (
            f"no task runs in one unit with its only input: others use {shared:,} of these "
            f"{len(sources):,} inputs, and {len(sources) - shared:,} have other options"
        )
    sizes = Counter(after.heads)
    units = counted(len(sizes), "unit", "units")
    return f"{counted(len(after))} run as {units}, the longest of {max(sizes.values()):,} tasks"


def choose_order(plan: Plan, optimize: bool = True) -> Plan:
    """Let ready tasks start by number where that keeps fewer values alive.

    >>> from lazyflow import delayed
    >>> x, y = ([[delayed(abs)(-1) for _ in range(8)] for _ in range(8)] for _ in "xy")
    >>> product = [delayed(sum)([delayed(max)(x[i][k], y[k][j]) for k in range(8)])
    ...            for i in range(8) for j in range(8)]
    >>> make_plan(product).by_number, make_plan(product[:1]).by_number
    (True, False)
    """
    return plan.run_by_number(not plan.priorities and is_better_by_number(plan))


def _explain_order(before: Plan, after: Plan) -> str:
    if after.priorities:
        return "tasks of higher priority start first, then the users of a result right after it"
    if not after.by_number:
        return f"the users of a result start right after it: {_why_newest_first(after)}"
    return (
        f"ready tasks start by number, which keeps {most_by_number(after):,} values alive at most "
        f"instead of {most_newest_first(after):,}"
    )


def _why_newest_first(plan: Plan) -> str:
    why_not, shared, uses = _cuts(plan)
    if not why_not:
        newest, by_number = most_newest_first(plan), most_by_number(plan)
        return (
            f"{newest:,} values are alive at most, and {by_number:,} by number, which has to be "
            f"less than {_WORTH:.0%} of that"
        )
    results = counted(shared, "result has", "results have")
    return f"{results} several users, " + {
        "few": f"not {_MANY} or more",
        "whole": f"{uses / max(shared, 1):.2g} on average and not {_PIECES} or more",
        "rare": f"with {uses:,} uses beside {len(plan):,} tasks, not one in {_SHARE} or more",
    }[why_not]


#: Every pass, in the order in which they run.
PASSES = [
    PlanPass("merge", merge, _explain_merge),
    PlanPass("fuse", fuse, _explain_fuse),
    PlanPass("order", choose_order, _explain_order),
]
