"""Plans and passes: random graphs against eager Python, and what a plan promises."""

import zlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazyflow import annotate, compute, delayed, optimize, persist, trace
from lazyflow.graph.plan import PASSES, Plan, in_order, make_plan, merge, plan_of
from lazyflow.graph.task import is_leaf

ran = []  # tags of the calls that ran


def combine(tag, *args, **kwargs):
    """Make a number of any nested arguments."""
    ran.append(tag)
    return zlib.crc32(repr((tag, args, sorted(kwargs.items()))).encode())


def split(tag, n, *args):
    return [combine(tag, i, *args) for i in range(n)]


def extended(xs, x):
    xs.append(x)  # the task's own copy
    return xs


# -- random graphs --------------------------------------------------------------------------
#
# A graph is a list of steps (kind, numbers of earlier values, tag); each step adds one value or
# several. `build` follows the steps with whatever functions it is given: lazy or plain ones.

KINDS = ["call", "pure", "nested", "keyword", "split", "add", "xor", "negative", "divmod", "item",
         "attribute", "method", "list", "value", "label"]  # fmt: skip


@st.composite
def graphs(draw, max_size=14):
    steps = []
    for tag in range(draw(st.integers(1, max_size))):
        kind = draw(st.sampled_from(KINDS))
        sources = draw(st.lists(st.integers(0, 30), min_size=1, max_size=3))
        steps.append((kind, sources, draw(st.integers(0, 2)) if kind == "pure" else tag))
    return steps


def eager_form(func, **options):
    """What `delayed` promises, in plain Python: nobody's list is changed by a task."""

    def call(*args, **kwargs):
        return func(*[list(x) if type(x) is list else x for x in args], **kwargs)

    return call


def build(steps, mark, lift):
    """Return all values of a graph; `mark` is `delayed` or does nothing, `lift` wraps a value."""
    values = [lift(3), 5]
    for kind, sources, tag in steps:
        args = [values[n % len(values)] for n in sources]
        a, b = args[0], args[-1]
        values.extend(_step(kind, tag, args, a, b, mark, lift))
    return values


def _step(kind, tag, args, a, b, mark, lift):
    call = mark(combine)
    match kind:
        case "call":
            return [call(tag, *args)]
        case "pure":
            return [mark(combine, pure=True)(f"pure {tag}", *args)]
        case "nested":
            return [call(tag, [a, (b, {"k": [*args]}), {"a": a}], slice(a, None, b))]
        case "keyword":
            return [call(tag, **{f"k{i}": x for i, x in enumerate(args)})]
        case "split":
            return list(mark(split, nout=3)(tag, 3, *args))[:2]
        case "add":
            return [(a + b) % 1000]
        case "xor":
            return [a ^ b]
        case "negative":
            return [-a, abs(a)]
        case "divmod":
            return list(mark(divmod, nout=2)(a, 7))
        case "item":
            return [mark(split)(tag, 2, a)[1]]
        case "attribute":
            return [a.real]
        case "method":
            return [a.bit_length()]
        case "list":
            xs = mark(split)(tag, 2, b)
            return [mark(len)(mark(extended)(xs, a)), mark(sum)(xs)]
        case "value":
            return [mark(sum)(lift([a, b, tag]))]
    with annotate(name="label", retries=1):
        return [call(tag, a)]


def lazy(steps):
    return build(steps, delayed, delayed)


def eager(steps):
    return build(steps, eager_form, lambda x: x)


def picked(values, numbers):
    """Some of the values, in some nesting."""
    some = [values[n % len(values)] for n in numbers]
    return [some[0], {"rest": some[1:]}, (some[-1],)]


pick = st.lists(st.integers(0, 60), min_size=1, max_size=5)


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
@pytest.mark.parametrize("optimize_graph", [True, False])
@given(graphs(), pick)
def test_random_graphs_agree_with_eager_python(scheduler, optimize_graph, steps, numbers):
    expected = picked(eager(steps), numbers)
    wanted = picked(lazy(steps), numbers)
    for _ in range(2):
        (found,) = compute(wanted, scheduler=scheduler, optimize_graph=optimize_graph)
        assert found == expected


@settings(max_examples=50)
@given(graphs(), pick)
def test_so_do_persist_optimize_and_trace(steps, numbers):
    expected = picked(eager(steps), numbers)
    wanted = picked(lazy(steps), numbers)
    assert compute(*optimize(wanted), scheduler="sync") == (expected,)
    assert compute(*persist(wanted, scheduler="threads")) == (expected,)
    assert compute(*persist(*optimize(wanted), scheduler="sync")) == (expected,)
    rerun = trace(lambda: wanted, scheduler="sync")
    assert rerun() == rerun() == expected


@given(graphs(), pick)
def test_what_is_not_wanted_does_not_run_and_the_rest_once(steps, numbers):
    values = lazy(steps)
    wanted = picked(values, numbers)
    needed = in_order([x for x in _flat(wanted) if not isinstance(x, int)])[0]
    calls = Counter(
        _tag(t) for t in needed if t._func in (combine, split)
    )  # split calls combine as often as it has values
    ran.clear()
    compute(wanted, scheduler="sync", optimize_graph=False)
    found = Counter(ran)
    assert found.keys() == calls.keys()
    singles = {_tag(t) for t in needed if t._func is combine and not t._options.pure}
    assert all(found[tag] == 1 for tag in singles)
    ran.clear()
    compute(wanted, scheduler="sync")
    keys = {t.key for t in needed if t._options.pure}
    assert sum(str(tag).startswith("pure") for tag in ran) == len(keys)


def _tag(task):
    return (task._bind.template if task._bind is not None else task._args)[0]


def _flat(wanted):
    first, rest, (last,) = wanted
    return [first, *rest["rest"], last]


# -- what a plan promises -------------------------------------------------------------------


def made(steps, numbers, optimize_graph=True):
    wanted = [x for x in _flat(picked(lazy(steps), numbers)) if not isinstance(x, int)]
    return make_plan(wanted, optimize_graph), wanted


@given(graphs(), pick, st.booleans())
def test_a_plan_is_in_topological_order_and_consistent(steps, numbers, optimize_graph):
    plan, wanted = made(steps, numbers, optimize_graph)
    assert len(plan) == plan.end == len(plan.tasks) == len(set(plan.tasks))
    uses = Counter()
    for i, (task, inputs) in enumerate(zip(plan.tasks, plan.inputs, strict=True)):
        assert all(j < i for j in inputs or ())
        assert len(inputs or ()) == len(task._inputs) == plan.needs[i]
        assert (i in plan.leaves) == is_leaf(task)
        assert (i in plan.ready) == (not inputs and not is_leaf(task))
        assert task._height == max((s._height + 1 for s in task._inputs), default=0)
        for j, source in zip(inputs or (), task._inputs, strict=True):
            same = plan.tasks[j] is source or plan.tasks[j].key == source.key
            assert same
            uses[j, i] += 1
    for i, x in zip(plan.outputs, wanted, strict=True):
        assert plan.tasks[i] is x or plan.tasks[i].key == x.key
        uses[i, plan.end] += 1
    assert plan.needs[plan.end] == len(wanted)
    assert uses == Counter((j, i) for j in range(plan.end) for i in plan.uses(j))
    assert all(plan.uses(j) for j in range(plan.end))  # what nobody needs is not there
    assert plan.ready == sorted(plan.ready, reverse=True)


@given(graphs(), pick)
def test_units_join_only_chains_and_accessors(steps, numbers):
    plan, _ = made(steps, numbers)
    heads = plan.heads or list(range(plan.end))
    for i, head in enumerate(heads):
        assert heads[head] == head <= i
        if head == i:
            continue
        (source,) = plan.inputs[i]
        task, before = plan.tasks[i], plan.tasks[source]
        assert heads[source] == head
        assert not is_leaf(before)
        assert plan.end not in plan.uses(source)  # nothing wanted inside a unit but its last
        assert plan.uses(source) == [i] or task._options.operator
    plain, _ = made(steps, numbers, optimize_graph=False)
    assert plain.heads is None


@given(graphs(), pick)
def test_merging_is_complete_and_keeps_what_tasks_mean(steps, numbers):
    _, wanted = made(steps, numbers)
    plan = plan_of(*in_order(wanted), wanted)
    merged = merge(plan)
    assert [merged.tasks[i].key for i in merged.outputs] == [t.key for t in wanted]
    for task, inputs in zip(merged.tasks, merged.inputs, strict=True):
        assert [merged.tasks[j].key for j in inputs or ()] == [t.key for t in task._inputs]
    assert {t.key for t in merged.tasks} == {t.key for t in plan.tasks}
    pure = [t.key for t in merged.tasks if t._options.pure]
    assert len(pure) == len(set(pure))
    assert merge(plan, optimize=False) is plan


@pytest.mark.parametrize("each", PASSES, ids=lambda each: each.name)
@given(graphs(), pick, st.booleans())
def test_passes_are_idempotent(each, steps, numbers, optimize_graph):
    _, wanted = made(steps, numbers)
    once = each.apply(plan_of(*in_order(wanted), wanted), optimize_graph)
    assert each.apply(once, optimize_graph) is once


def test_a_plan_does_not_change():
    plan = make_plan([inc(inc(1))])
    for name in (*Plan.__mro__[1].__slots__, "other"):
        with pytest.raises(AttributeError, match=f"a plan does not change, so its {name} can't"):
            setattr(plan, name, None)
    plain = make_plan([inc(inc(1))], optimize=False)
    fused = plain.fused([0, 0])
    assert (plain.heads, fused.heads, fused.tasks) == (None, [0, 0], plain.tasks)
    assert fused.fused([0, 0]) is fused


# -- single facts ---------------------------------------------------------------------------

inc = delayed(lambda x: x + 1)
add = delayed(lambda x, y: x + y)


def test_chains_are_one_unit_until_a_wanted_value():
    xs = [inc(1)]
    for _ in range(5):
        xs.append(inc(xs[-1]))
    assert make_plan([xs[-1]]).heads == [0] * 6
    assert make_plan([xs[2], xs[-1]]).heads == [0, 0, 0, 3, 3, 3]
    assert compute(xs[2], xs[-1]) == (4, 7)


def test_units_end_where_options_change():
    for other in (
        {"priority": 1}, {"retries": 1}, {"crash_retries": 1}, {"resources": {"GPU": 1}},
        {"workers": "big"},
    ):  # fmt: skip
        g = delayed(lambda x: x, **other)
        assert make_plan([inc(g(g(inc(1))))]).heads == [0, 1, 1, 3]
    assert make_plan([inc(delayed(lambda x: x, name="n", pure=True)(inc(1)))]).heads == [0, 0, 0]


def test_a_value_used_twice_starts_no_unit_but_for_items():
    x = inc(1)
    assert make_plan([add(inc(x), inc(x))]).heads is None
    assert make_plan([add(x + 1, x + 2)]).heads == [0, 0, 0, 3]
    q, r = delayed(divmod, nout=2)(7, 2)  # what follows two items may run in parallel
    assert make_plan([add(inc(inc(q)), inc(inc(r)))]).heads == [0, 0, 2, 2, 0, 5, 5, 7]


@pytest.mark.parametrize("named", [lambda i: i, lambda i: -i], ids=["up", "down"])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 100, 1024])
def test_a_tree_is_planned_depth_first(n, named):
    """One worker holds at most log2(n) + 2 values of a reduction, however its tasks are named.

              sum          s01 is made, and o and o dropped, before s23 is begun
            /     \\
         s01       s23
        /   \\     /   \\
       o     o   o     o
    """
    level = [inc(i, dask_key_name=f"task {named(i) + n:05d}") for i in range(n)]
    while len(level) > 1:
        level = [add(*level[i : i + 2]) if i + 1 < len(level) else level[i]
                 for i in range(0, len(level), 2)]  # fmt: skip
    plan = make_plan(level)
    left = [len(plan.uses(i)) for i in range(plan.end)]
    alive = most = 0
    for i in range(plan.end):
        alive += 1
        most = max(most, alive)
        for j in plan.inputs[i] or ():
            left[j] -= 1
            alive -= left[j] == 0
    assert most <= (n - 1).bit_length() + 2


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_the_higher_input_goes_first(names):
    """We want `high` first: while it is made, no value of `low` waits for it. Names do not count.

              x
            /   \\
        high     low
          |       |
          o       o
          |
          o
    """
    low = inc(inc(1), dask_key_name=names[0])
    high = inc(inc(inc(2)), dask_key_name=names[1])
    for x in (add(low, high), add(high, low), delayed(sum)([low, high, inc(9)])):
        order, number = in_order([x])
        assert order[:3] == in_order([high])[0]
        assert number[low] >= 4


def test_a_wide_and_a_deep_graph():
    n = 100_000
    wide = delayed(sum)([inc(i) for i in range(n)])
    deep = inc(0)
    for _ in range(n):
        deep = inc(deep)
    plan = make_plan([wide, deep])
    assert len(plan) == 2 * n + 2
    assert compute(wide, deep, scheduler="sync") == (n * (n + 1) // 2, n + 1)


def test_the_same_task_wanted_many_times():
    x = inc(1)
    plan = make_plan([x, x, x])
    assert (len(plan), plan.outputs, plan.needs) == (1, [0, 0, 0], [0, 3])
    assert compute(x, [x, {"k": x}]) == (2, [2, {"k": 2}])


def test_nothing_wanted():
    assert len(make_plan([])) == 0
    assert compute() == ()
    assert compute(1, [2]) == (1, [2])
    assert optimize() == persist() == ()


def test_tasks_stay_as_they_are():
    pure = delayed(lambda x: [x], pure=True)
    x, y = pure(1), pure(1)
    z = add(x, y)
    inputs = z._inputs
    assert compute(*optimize(z)) == compute(z) == ([1, 1],)
    assert z._inputs is inputs
    assert inputs == (x, y) and inputs[1] is y


def test_optimize_keeps_arguments_in_place():
    pure = delayed(abs, pure=True)
    a, b = pure(-1), pure(-1)
    f = delayed(lambda *args, **kwargs: (args, kwargs))
    x = f(a, [b, {"k": a}], 5, k=b)
    (better,) = optimize(x)
    assert better.compute() == x.compute() == ((1, [1, {"k": 1}], 5), {"k": 1})
    assert len({id(t) for t in better._inputs}) == 1
    (upper,) = optimize(delayed("a", pure=True).upper)
    assert upper().compute() == "A"


def test_optimize_explains_what_each_pass_does():
    pure = delayed(lambda x: x, pure=True)
    assert optimize(pure(1), [pure(1), inc(inc(inc(2)))], explain=True).splitlines() == [
        "graph: 5 tasks, 0 of them values; 3 results are wanted",
        "merge: 1 of 5 tasks is equal to another one and joins it",
        "fuse: 4 tasks run as 2 units, the longest of 3 tasks",
        "order: the users of a result start right after it: 1 result has several users, "
        "not 8 or more",
    ]
    assert optimize(delayed(7), pure(delayed(8)), explain=True).splitlines() == [
        "graph: 3 tasks, 2 of them values; 2 results are wanted",
        "merge: none of 3 tasks is equal to another one",
        "fuse: no task has another one as its only input",
        "order: the users of a result start right after it: 0 results have several users, "
        "not 8 or more",
    ]
    assert optimize(1, explain=True).startswith("graph: 0 tasks, 0 of them values; 0 results are")
    assert optimize(inc(1), explain=True).splitlines()[1:] == [
        "merge: no task is pure or has a key of its own",
        "fuse: no task has another one as its only input",
        "order: the users of a result start right after it: 0 results have several users, "
        "not 8 or more",
    ]
