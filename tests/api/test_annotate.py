"""`annotate`: options of all tasks that are made in a block."""

import asyncio
import operator
import threading

import cloudpickle
import pytest

from lazyflow import annotate, compute, delayed
from lazyflow.graph.options import DEFAULT


def inc(x):
    return x + 1


def options_of(x):
    o = x._options
    return (o.retries, o.priority, o.resources, o.label, o.crash_retries)


def test_annotations_reach_calls_values_and_operators():
    f = delayed(inc)
    with annotate(retries=2, name="n"):
        made = [f(1), f(f(1)), f([1]), f(x=1), f(delayed(1)) + 1, delayed([f(1)]),
                f(1) + f(2), f(1) + 2, -f(1), f(1)[0], f(1).real, f(1).real()]
    for x in made:
        assert options_of(x) == (2, 0, None, "n", None)
    assert options_of(f(1)) == (0, 0, None, None, None)
    assert compute(made[:2]) == ([2, 3],)


def test_an_annotation_of_workers():
    with annotate(workers="big"):
        assert delayed(inc)(1)._options.workers == ("big",)
        assert delayed(inc, workers=[0, "small"])(1)._options.workers == (0, "small")
    assert delayed(inc)(1)._options.workers is None


def test_annotations_nest_and_end():
    f = delayed(inc)
    with annotate(retries=2, priority=3):
        with annotate(priority=5, resources={"GPU": 1}):
            inner = f(1)
            with annotate(priority=0):
                zero = f(1)
        outer = f(1)
    assert options_of(inner) == (2, 5, {"GPU": 1}, None, None)
    assert options_of(zero) == (2, 0, {"GPU": 1}, None, None)
    assert options_of(outer) == (2, 3, None, None, None)
    with pytest.raises(RuntimeError), annotate(retries=9):
        raise RuntimeError
    assert options_of(f(1)) == (0, 0, None, None, None)


def test_what_delayed_says_rules_over_annotations():
    f = delayed(inc, retries=1, name="own", priority=7)
    with annotate(retries=5, name="outer", priority=1, crash_retries=4):
        assert options_of(f(1)) == (1, 7, None, "own", 4)


@pytest.mark.parametrize(("option", "given", "annotated"), [
    ("retries", 0, 5), ("priority", 0, 5), ("hide", False, True), ("hide", [], "x"),
    ("resources", {}, {"GPU": 1}), ("crash_retries", 0, 4),
])
def test_what_delayed_says_rules_though_it_is_the_default(option, given, annotated):
    f = delayed(inc, **{option: given})
    plain = getattr(f(1)._options, option)
    with annotate(**{option: annotated}):
        assert getattr(f(1)._options, option) == plain
        again = cloudpickle.loads(cloudpickle.dumps(f))
        assert getattr(again(1)._options, option) == plain
        assert getattr(delayed(inc)(1)._options, option) != plain


def test_annotations_are_for_tasks_made_in_the_block_not_run_in_it():
    x = delayed(inc)(1)
    with annotate(name="label"):
        assert x.compute() == 2
    assert repr(x) == "<Delayed inc(1)>"


def test_retries_by_annotation():
    calls = []

    def flaky():
        calls.append(1)
        if len(calls) < 3:
            raise OSError("again")
        return len(calls)

    with annotate(retries=2):
        x = delayed(flaky)()
    assert x.compute() == 3


def test_a_label_is_not_a_key():
    f = delayed(inc)
    with annotate(name="same"):
        x, y = f(1), f(2)
    assert compute(x, y) == (2, 3)
    assert x.key != y.key
    assert repr(x) == "<Delayed same(1)>"
    with annotate(name="same"):
        broken = delayed(operator.truediv)(1, 0)
    with pytest.raises(ZeroDivisionError) as caught:
        broken.compute()
    assert caught.value.__notes__[0].startswith("in lazyflow task same(1, 0), made at ")


def test_threads_do_not_see_each_others_annotations():
    f, found = delayed(inc), {}
    barrier = threading.Barrier(4, timeout=30)

    def work(n):
        barrier.wait()
        with annotate(retries=n) if n else annotate():
            barrier.wait()
            found[n] = options_of(f(1))[0]
            barrier.wait()

    with annotate(retries=99):
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert found == {n: n for n in range(4)}


def test_async_tasks_do_not_see_each_others_annotations():
    f = delayed(inc)

    async def make(n):
        with annotate(retries=n):
            await asyncio.sleep(0)
            return options_of(f(1))[0]

    async def main():
        return await asyncio.gather(*[make(n) for n in range(1, 6)])

    assert asyncio.run(main()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"retries": -1}, ValueError),
        ({"priority": 1.5}, TypeError),
        ({"resources": "GPU"}, TypeError),
        ({"name": 5}, TypeError),
        ({"pure": True}, TypeError),
        ({"crash_retries": "x"}, ValueError),
        ({"workers": {"a": 1}}, TypeError),
    ],
)
def test_wrong_annotations_are_refused_where_they_are_written(said, error):
    with pytest.raises(error), annotate(**said):
        pass
    assert options_of(delayed(inc)(1)) == (0, 0, None, None, None)


def given():
    return {"resources": {"GPU": 1}, "workers": ["big"], "hide": ["x"]}


def edit(words):
    words["resources"]["nonsense"] = "x"
    words["workers"].append("small")
    words["hide"].append("y")


def test_options_are_copies_of_what_was_given():
    """What the caller edits later reaches no task that is made, and none that a block makes."""
    words = given()
    made = [delayed(inc, **words)(1)]
    edit(words)
    words = given()
    with annotate(**words):
        edit(words)
        made.append(delayed(inc)(1))
    for x in made:
        o = x._options
        assert (o.resources, o.workers, o.hide) == ({"GPU": 1}, ("big",), ("x",))


@pytest.mark.parametrize("name", [*DEFAULT.given(), "special", "unknown"])
def test_options_refuse_assignment(name):
    """Tasks share them: one that was changed would change others, those to come as well."""
    with pytest.raises(AttributeError, match=rf"write: options.replace\({name}=...\)"):
        setattr(delayed(abs)(-1)._options, name, 5)
