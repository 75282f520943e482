"""Grouping tasks for engines: every task once, in a possible order, and results stay the same."""

import random
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lazyflow
from lazyflow import annotate, delayed
from lazyflow.graph.grouping import Limits, clusters
from lazyflow.graph.plan import make_plan
from lazyflow.graph.task import is_leaf
from lazyflow.schedulers.cluster.group_queue import LONG, GroupQueue


def mix(*args):
    return hash(args) % 1_000_003


def random_plan(seed):
    """Return a plan of up to 40 tasks with 0 to 4 inputs each, some with annotations."""
    rng = random.Random(seed)
    tasks = [delayed(seed)]
    for number in range(rng.randint(1, 40)):
        inputs = rng.choices(tasks[-rng.randint(1, 12):], k=rng.randint(0, 4))
        with annotate(priority=rng.choice([None, None, None, 1])):
            tasks.append(delayed(mix)(number, *inputs))
    wanted = rng.sample(tasks[1:], rng.randint(1, min(5, len(tasks) - 1)))
    return make_plan(wanted)


BUDGET = 0.02
LIMITS = Limits(BUDGET, packed=300_000, held=15_000_000)


def grouped(plan, seed, are_shown):
    """Return what there is to group, the groups, costs, and what is in groups of its own."""
    rng = random.Random(seed)
    shown = plan.outputs if are_shown else ()
    apart = [i for i in shown if rng.random() < 0.5]
    costs = [rng.choice([None, 0.0, 0.001, 0.01, 1.0]) for _ in plan.tasks]
    todo = [i for i, task in enumerate(plan.tasks) if not is_leaf(task)]
    sizes = [rng.choice([None, 0, 5_000, 200_000, 10_000_000]) for _ in plan.tasks]
    groups = clusters(plan, todo, costs.__getitem__, sizes.__getitem__, LIMITS, shown, apart)
    return todo, groups, costs, sizes, apart


def run(plan, order, values):
    for i in order:
        task = plan.tasks[i]
        inputs = [values[j] for j in plan.inputs[i] or ()]
        args, kwargs = task._bind.fill(inputs) if task._bind else (
            (inputs if task._inputs else task._args), {})
        values[i] = task._func(*args, **kwargs)


def leaves(plan):
    return {i: task._args[0] for i, task in enumerate(plan.tasks) if is_leaf(task)}


@given(seed=st.integers(0, 1 << 32), are_shown=st.booleans())
@settings(max_examples=300, deadline=None)
def test_grouped_and_plain_give_equal_results(seed, are_shown):
    plan = random_plan(seed)
    todo, groups, *_ = grouped(plan, seed, are_shown)
    assert sorted(i for group in groups for i in group) == todo
    plain, values = leaves(plan), leaves(plan)
    run(plan, todo, plain)
    for group in groups:  # a KeyError: it needs what a later group makes
        assert group == sorted(group)
        run(plan, group, values)
    assert values == plain


@given(seed=st.integers(0, 1 << 32))
@example(seed=2969891)  # a task of unknown cost after a small subtree
@settings(max_examples=200, deadline=None)
def test_no_group_reaches_across_annotations_or_past_the_budget(seed):
    plan = random_plan(seed)
    wanted = set(plan.outputs)
    _, groups, costs, _, apart = grouped(plan, seed, are_shown=True)
    for group in groups:
        assert len({plan.tasks[i]._options.priority for i in group}) == 1
        assert not set(apart).intersection(group[:-1])  # such a result is the last, and alone
        assert group[-1] not in apart or not wanted.intersection(group[:-1])
        inside = set(group)
        is_chain = all(len(inside.intersection(plan.inputs[i] or ())) <= 1 for i in group) and (
            sum(not inside.intersection(plan.inputs[i] or ()) for i in group) == 1)
        known = [costs[i] for i in group]
        if wanted.intersection(group[:-1]):
            assert None not in known and sum(known) <= BUDGET + 1e-9
        assert is_chain or (None not in known and sum(known) <= BUDGET + 1e-9)


def no_bytes(i):
    return 0


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=200, deadline=None)
def test_no_group_brings_large_results_together(seed):
    plan = random_plan(seed)
    _, groups, _, sizes, _ = grouped(plan, seed, are_shown=True)
    is_large = [size is None or size > LIMITS.packed for size in sizes]
    for group in groups:
        read = [{j for j in set(plan.inputs[i] or ()) - set(group) if is_large[j]} for i in group]
        assert set().union(*read) in read  # one of its tasks reads them all
        given = [i for i in group if not set(group).issuperset(plan.uses(i))]
        if len(given) > 1 and not set(plan.outputs).intersection(given):
            made_of = {}  # the large results of which each is made
            for i in group:
                inputs = set(plan.inputs[i] or ())
                large = {j for j in inputs if is_large[j]}
                made_of[i] = large.union(*[made_of[j] for j in inputs & made_of.keys()])
            is_of_one = set.intersection(*[made_of[i] for i in given])
            most = LIMITS.held if is_of_one else LIMITS.packed
            assert sum(sizes[i] for i in given) <= most


def test_what_reads_one_large_result_is_in_its_group():
    block = delayed(mix)(0)
    pieces = [delayed(mix)(i, block) for i in range(8)]
    joined = [delayed(mix)(i, *pieces) for i in range(2)]
    plan = make_plan(joined)
    size = {i: 8_000_000 if not plan.inputs[i] else 1_000_000 for i in range(len(plan))}
    cost = dict.fromkeys(size, 0.002)

    def groups_of(limits):
        return clusters(plan, range(len(plan)), cost.get, size.get, limits)

    assert [len(group) for group in groups_of(LIMITS._replace(held=20_000_000))] == [9, 2]
    assert [len(group) for group in groups_of(LIMITS)] == [1, 8, 2]  # they would hold 16 MB
    few = LIMITS._replace(seconds=0.01)  # it would take longer
    assert [len(group) for group in groups_of(few)] == [1, 5, 3, 2]


def test_no_block_of_a_scan_waits_for_the_carry_of_those_before():
    alone = [delayed(mix)(i) for i in range(4)]
    carry, joined = alone[0], []
    for i, block in enumerate(alone[1:]):
        joined.append(delayed(mix)("joined", i, carry, block))
        carry = delayed(mix)("carry", i, carry, block)
    plan = make_plan([delayed(mix)(carry, *joined)])
    is_carry = [bool(task._bind) and "carry" in repr(task) for task in plan.tasks]
    assert sum(is_carry) == 3
    size = {i: 8_000 if is_carry[i] else 8_000_000 for i in range(len(plan))}
    cost = dict.fromkeys(size, 0.001)
    groups = clusters(plan, range(len(plan)), cost.get, size.get, LIMITS._replace(held=1e9))
    blocks = [group for group in groups if any(not plan.inputs[i] for i in group)]
    assert len(blocks) == 4
    for group in blocks:
        assert all(j in group for i in group for j in plan.inputs[i] or ())


def tree(leaf, join, count):
    row = [leaf(i) for i in range(count)]
    while len(row) > 1:
        row = [join(a, b) for a, b in zip(row[::2], row[1::2], strict=True)]
    return row[0]


def test_a_tree_becomes_subtrees_of_equal_weight():
    plan = make_plan([tree(delayed(abs), delayed(max), 1024)])
    groups = clusters(plan, range(len(plan)), lambda i: 1.0, no_bytes, Limits(300.0))
    assert [len(g) for g in groups] == [255] * 8 + [7]


def test_a_chain_of_unknown_cost_is_one_group():
    x = delayed(0)
    for _ in range(1000):
        x = delayed(abs)(x)
    plan = make_plan([x])
    assert len(clusters(plan, range(1, len(plan)), lambda i: None, no_bytes, Limits(1.0))) == 1


def test_independent_tasks_are_packed_only_when_their_cost_is_known():
    plan = make_plan([delayed(sum)([delayed(abs)(i) for i in range(1000)])])
    known = clusters(plan, range(len(plan)), lambda i: 0.001, no_bytes, Limits(0.1))
    assert max(map(len, known)) in (99, 100, 101) and len(known) in (11, 12)
    assert len(clusters(plan, range(len(plan)), lambda i: None, no_bytes, Limits(0.1))) == 1001


def test_work_grows_with_the_tasks_and_not_faster():
    """Counted by the lines of Python that run: clocks of shared machines say other things."""
    def lines(count):
        plan = make_plan([tree(delayed(abs), delayed(max), count)])
        run = 0

        def trace(frame, event, arg):
            nonlocal run
            run += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            clusters(plan, range(len(plan)), lambda i: 1e-4, no_bytes, Limits(0.01))
        finally:
            sys.settrace(before)
        return run

    assert lines(1 << 13) < 9 * lines(1 << 10)  # 8 times the tasks


@pytest.mark.parametrize(("shown", "apart", "inside"), [
    ([], [], True), ([0, 1], [], True), ([0, 1], [0], False), ([0, 1], [1], False),
    ([1], [1], True),
])
def test_wanted_results_inside(shown, apart, inside):
    x = delayed(abs)(-1)
    y = delayed(abs)(x)
    plan = make_plan([x, y])
    groups = clusters(plan, range(len(plan)), lambda i: 1e-6, no_bytes, Limits(1.0), shown, apart)
    assert groups == ([[0, 1]] if inside else [[0], [1]])
    if 0 in shown:  # it is not held back by what may take an hour
        for cost in (None, 2.0):
            costs = {0: 1e-6, 1: cost}
            found = clusters(plan, [0, 1], costs.__getitem__, no_bytes, Limits(1.0), shown)
            assert found == [[0], [1]]
    assert lazyflow.compute(x, y) == (1, 1)


# -- which groups go now --------------------------------------------------------------------


class FakeEngine:
    """An engine of two workers, with the costs and sizes of some functions."""

    has_priorities = True

    def __init__(self, costs=None, most=2):
        self.costs = dict.fromkeys(costs or (), 1.0)
        self.sizes = dict.fromkeys(self.costs, 1_000_000)
        self.most = most

    def width(self):
        return 2

    def is_within(self, limit):
        return self.most <= limit

    def memory(self):
        return 1e9

    def holds(self, value):
        return False

    def hear_of_workers(self):
        pass

    def next_place(self):
        return ""


def queue_of(known, limit=None, most=2, now=lambda: 0.0):
    """Return a queue of ten tasks of a function, and one of another that reads them."""
    made = delayed(abs)
    plan = make_plan([delayed(len)([made(i) for i in range(10)])])
    queue = GroupQueue(plan, FakeEngine(known, most), {}, limit, {}, 2, now)
    queue.functions = {
        i: (task._func.__name__.encode(), b"") for i, task in enumerate(plan.tasks)}
    queue.todo = {i for i, task in enumerate(plan.tasks) if not is_leaf(task)}
    queue.regroup(())
    return queue


def gone(queue, under_way=()):
    under_way = list(under_way)
    for group in queue.departing(under_way):
        group.handle = group
        under_way.append(group)
        queue.handed_over(group)
    return under_way


@pytest.mark.parametrize(("known", "limit", "most", "count"), [
    ((), None, 2, 4),  # two for each worker
    ((), 1, 2, 1),
    ((), 2, 2, 2),
    ([b"abs"], None, 2, 10),  # and the last one, of unknown cost, stays
    ([b"abs"], 2, 2, 10),  # all workers run no more anyhow
    ([b"abs"], 1, 2, 1),
    ([b"abs"], 2, 3, 2),
    ([b"abs", b"len"], None, 2, 11),
])
def test_groups_of_known_costs_go_at_once(known, limit, most, count):
    assert len(gone(queue_of(known, limit, most))) == count


def test_groups_that_are_held_back_go_when_nothing_has_ended_for_some_time():
    time = [0.0]
    queue = queue_of((), now=lambda: time[0])
    under_way = gone(queue)
    assert queue.is_held_back() and len(under_way) == 4
    time[0] = LONG / 2
    assert len(gone(queue, under_way)) == 4
    assert queue.is_held_back() is False  # they are watched already
    time[0] = LONG
    assert len(gone(queue, under_way)) == 11


UNKNOWN = "11 tasks left make 11 groups, the largest of 1 task; the limit is 0.005 s of work; "


@pytest.mark.parametrize(("known", "words"), [
    ((), UNKNOWN + "11 tasks of unknown cost"),
    ([b"abs"],
     "11 tasks left make 11 groups, the largest of 1 task; the limit is 0.1 s of work; "
     "1 task of unknown cost"),
    ({b"abs": 1e-6, b"len": 1e-6},
     "11 tasks left make 1 group, the largest of 11 tasks; the limit is 0.005 s of work; "
     "all costs are known"),
])
def test_the_log_has_what_each_grouping_made(caplog, monkeypatch, known, words):
    if isinstance(known, dict):
        monkeypatch.setattr(GroupQueue, "size", lambda self, i: 0)
    with caplog.at_level("DEBUG", "lazyflow.passes"):
        queue = queue_of(())
        queue.engine.costs.update(known if isinstance(known, dict) else dict.fromkeys(known, 1.0))
        caplog.clear()
        queue.regroup(())
    assert [record.getMessage() for record in caplog.records] == [f"groups: {words}"]
