"""The flame: which lines cost the time, on every scheduler, without a line of our own."""

import logging
import sys
import threading
from time import perf_counter, thread_time

import pytest

import lazyflow
from lazyflow import compute, delayed
from lazyflow.diagnostics.profiling import samples as module
from lazyflow.diagnostics.profiling.pages import Flame
from lazyflow.diagnostics.profiling.records import RunRecord
from lazyflow.diagnostics.profiling.samples import SampledStack, Samples, call_tree, hottest
from lazyflow.schedulers.core import sampling
from lazyflow.schedulers.core.sampling import RunningTask, Sampler, stack_of

ALL = pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
EVIL = "</script><script>document.title='EVIL'</script>\u202e\x00"


def burn(seconds):
    start = thread_time()
    while thread_time() - start < seconds:
        pass


def outer(seconds):
    burn(seconds)


def own_stack(depth=1):
    return stack_of(sys._getframe(), depth)


def stack_inside(depth):
    return delayed(own_stack)(depth).compute(scheduler="sync")


def samplers():
    return [t for t in threading.enumerate() if t.name == "lazyflow-sampler"]


def line_of(function, below):
    return function.__code__.co_firstlineno + below


@ALL
def test_the_line_that_costs_is_the_hottest(scheduler):
    how = {"scheduler": scheduler, "num_workers": 1}
    compute(delayed(outer)(0), **how)  # a worker imports this module
    with lazyflow.profile(sample=0.001) as p:
        compute([delayed(outer)(0.03) for _ in range(3)], **how)
    flame = p.flame()
    hot = flame.lines[0]
    assert hot.function == "burn"
    assert hot.place.endswith(f"test_flame.py:{line_of(burn, 2)}")
    assert hot.code == "while thread_time() - start < seconds:"
    assert flame.looks >= hot.samples > 0
    assert 0.5 < hot.share <= 1
    assert flame.seconds <= sum(task.seconds for task in p.tasks) + 0.001
    assert samplers() == []


@ALL
def test_the_lines_of_a_task_begin_with_its_own_function(scheduler):
    (stack,) = compute(delayed(own_stack)(), scheduler=scheduler)
    assert [tuple(line) for line in stack] == [
        ("own_stack", own_stack.__code__.co_filename, line_of(own_stack, 1))
    ]


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_a_task_in_a_task_has_lines_of_its_own(scheduler):
    inner, below = compute(
        delayed(stack_inside)(2), delayed(stack_inside)(1), scheduler=scheduler
    )
    assert [line[0] for line in inner] == ["own_stack"]
    assert [(line[0], line[2]) for line in below] == [("stack_inside", line_of(stack_inside, 1))]


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_a_task_may_profile_what_it_computes(scheduler):
    def profiling():
        with lazyflow.profile(sample=0.001) as p:
            delayed(burn)(0.03).compute(scheduler="sync")
        return p.flame()

    hot, *_ = delayed(profiling)().compute(scheduler=scheduler).lines  # a sample may meet another
    assert hot.function == "burn"


def test_a_function_of_c_has_no_line():
    with lazyflow.profile(sample=0.001) as p:
        delayed(sum)(range(5_000_000)).compute(scheduler="sync")
    (hot,) = p.flame().lines
    assert (hot.place, hot.function, hot.code) == ("", "builtins.sum", "")
    assert "(in C)  builtins.sum   100%" in repr(p.flame())


def test_a_look_stands_for_the_time_since_the_one_before():
    seen = []
    now = perf_counter()
    running = [RunningTask(threading.get_ident(), "old", now - 9)]
    sampler = Sampler(1.0, lambda: running, lambda *what: seen.append(what))
    assert sampler.look(now, 2.0)
    running[0] = RunningTask(threading.get_ident(), "new", now - 0.5)
    assert sampler.look(now, 2.0)
    assert [(name, seconds) for name, _, seconds in seen] == [("old", 2.0), ("new", 0.5)]
    running.clear()
    assert not sampler.look(now, 2.0)


def test_of_tasks_inside_of_tasks_the_innermost_is_seen():
    seen = []
    running = [RunningTask(threading.get_ident(), name, since) for name, since in
               (("inner", 2.0), ("outer", 1.0))]
    Sampler(1.0, lambda: running, lambda *what: seen.append(what)).look(5.0, 1.0)
    assert [name for name, *_ in seen] == ["inner"]


def test_a_task_that_ended_meanwhile_is_not_seen():
    lists = [[RunningTask(threading.get_ident(), "task", 0.0)], []]
    seen = []
    Sampler(1.0, lambda: lists.pop(0), lambda *what: seen.append(what)).look(5.0, 1.0)
    assert seen == []


def test_a_sampler_that_nobody_stops_ends_when_no_task_comes(monkeypatch):
    monkeypatch.setattr(sampling, "_IDLE", 0.0)
    sampler = Sampler(0.001, lambda: (), print, may_idle=False).start()
    for thread in samplers():
        thread.join(60)
    assert not sampler.goes_on()
    assert samplers() == []


def test_a_failing_look_is_logged_once_and_changes_nothing(caplog, monkeypatch):
    def fails(*_):
        raise OSError("broken")

    monkeypatch.setattr(sampling, "stack_of", fails)
    with caplog.at_level(logging.ERROR, logger="lazyflow"), lazyflow.profile(sample=0.001) as p:
        assert delayed(burn)(0.03).compute(scheduler="threads") is None
    assert [r.message for r in caplog.records] == [
        "the thread that looks where tasks are has failed; results are not affected"
    ]
    assert len(p.tasks) == 1


def test_no_thread_looks_unless_a_profile_asks():
    inside = []
    with lazyflow.profile(sample=None) as p:
        delayed(lambda: inside.extend(samplers()))().compute()
    assert inside == []
    assert p.usage == []
    with pytest.raises(RuntimeError) as caught:
        p.flame()
    assert str(caught.value) == (
        "this profile took no samples, as it was made by profile(sample=None). Type: with "
        "lazyflow.profile() as p:"
    )


@pytest.mark.parametrize("sample, kind", [
    (0, ValueError), (-1.0, ValueError), (0.0001, ValueError), (float("nan"), ValueError),
    (float("inf"), ValueError), ("10 ms", TypeError), (True, TypeError),
])
def test_an_impossible_interval_is_refused(sample, kind):
    with pytest.raises(kind) as caught:
        lazyflow.profile(sample=sample)
    assert str(caught.value) == (
        f"sample={sample!r}: the seconds between two samples must be a number from 0.001 to 3600. "
        "Type: profile(), which samples each 0.01 s, or profile(sample=None), which takes no "
        "samples"
    )


def test_nothing_was_seen():
    runs = [RunRecord(0, 1, "", True, "ThreadPoolExecutor", 1, 1)]
    assert repr(Flame([], [], 0.01)) == (
        "no task was seen: looks are taken each 10 ms. For shorter tasks type profile(sample=0.001)"
    )
    assert repr(Flame([], runs, 0.01)).endswith(
        "; tasks on ThreadPoolExecutor are not looked at"
    )


def test_the_table_has_the_programs_lines_the_hottest_first():
    library = threading.__file__
    deep = (("f", "a.py", 3), ("wait", library, 600))
    made = (("f", "a.py", 4), ("g", library, 7), ("<module>", "<string>", 1))
    seen = [
        SampledStack("m.f", deep, 3, 0.03), SampledStack("m.f", made, 1, 0.01),
        SampledStack("m.f", (("wait", library, 600),), 6, 0.06),
    ]
    lines = hottest(seen)
    assert [(line.place, line.function, line.samples) for line in lines] == [
        ("threading.py:600", "wait", 6), ("a.py:3", "f", 3), ("a.py:4", "f", 1),
    ]
    assert [line.share for line in lines] == pytest.approx([0.6, 0.3, 0.1])
    assert repr(Flame(seen, [], 0.01)).splitlines()[:3] == [
        "10 samples of 1 function, which stand for 100 ms in tasks",
        "line              function  share   time  samples  code",
        f"threading.py:600  wait        60%  60 ms        6  {lines[0].code}".rstrip(),
    ]


def test_boxes_of_the_tree_have_the_time_of_those_below():
    stacks = [(("f", "a.py", 1), ("g", "a.py", 9)), (("f", "a.py", 1),), (("f", "a.py", 2),)]
    root = call_tree([SampledStack("m.f", stack, 1, 0.5) for stack in stacks])
    task = root.below["m.f"]
    assert (root.seconds, task.looks) == (1.5, 3)
    assert {key: node.looks for key, node in task.below.items()} == {
        ("f", "a.py", 1): 2, ("f", "a.py", 2): 1
    }


def test_samples_are_merged_and_past_a_number_only_the_first_line_is_kept(monkeypatch):
    monkeypatch.setattr(module, "_MAX_STACKS", 2)
    samples = Samples()
    for line in (1, 1, 2, 3, 4):
        samples.add(burn, (("f", "a.py", 1), ("g", "a.py", line)), 1, 0.5)
    assert [(len(each.stack), each.looks, each.seconds) for each in samples.stacks()] == [
        (2, 2, 1.0), (2, 1, 0.5), (1, 2, 1.0)
    ]


def test_hostile_names_do_nothing():
    where = {}
    exec(compile("def evil():\n    burn(0.02)", "evil.py", "exec"), {"burn": burn}, where)
    evil = where["evil"]
    evil.__code__ = evil.__code__.replace(co_filename=EVIL, co_qualname=EVIL)
    evil.__name__ = evil.__qualname__ = EVIL + "y" * 1_000_000
    stack = ((EVIL, EVIL, 2),)
    flame = Flame([SampledStack(EVIL, stack, 1, 0.5)], [], 0.01)
    with lazyflow.profile(sample=0.001) as p:
        delayed(evil)().compute()
    for each in flame, p.flame():
        assert all(line.isprintable() and len(line) < 400 for line in repr(each).splitlines())
        assert "<script" not in each._repr_html_()


class TestPicture:
    pytest.importorskip("bokeh")

    def test_boxes_stand_below_what_called_them(self):
        stacks = {(("f", "a.py", 1), ("g", "a.py", 9)): 3.0, (("f", "a.py", 2),): 1.0}
        seen = [SampledStack("m.f", stack, 1, seconds) for stack, seconds in stacks.items()]
        data = Flame(seen, [], 0.01).figure().renderers[0].data_source.data
        boxes = list(zip(data["depth"], data["left"], data["right"], data["function"],
                         strict=True))
        assert boxes == [
            (0, 0.0, 4.0, "all tasks"), (1, 0.0, 4.0, "m.f"), (2, 0.0, 3.0, "f  a.py:1"),
            (2, 3.0, 4.0, "f  a.py:2"), (3, 0.0, 3.0, "g  a.py:9"),
        ]

    def test_what_is_too_narrow_to_be_seen_is_left_out(self):
        seen = [SampledStack("m.f", (), 1, 1.0), SampledStack("m.g", (), 1, 1e-5)]
        data = Flame(seen, [], 0.01).figure().renderers[0].data_source.data
        assert data["function"] == ["all tasks", "m.f"]

    def test_the_page_loads_and_runs_nothing(self, tmp_path):
        path = tmp_path / "flame.html"
        Flame([SampledStack(EVIL, ((EVIL, EVIL, 2),), 1, 0.5)], [], 0.01).write(path)
        page = path.read_text(encoding="utf-8")
        assert "default-src 'none'" in page
        assert "<script>document.title" not in page
        assert "\u202e" not in page

    def test_nothing_ran(self, tmp_path):
        with lazyflow.profile() as p:
            pass
        assert p.flame(tmp_path / "flame.html").looks == 0
        assert (tmp_path / "flame.html").exists()


def test_without_bokeh_it_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh.models", None)
    with pytest.raises(ImportError, match=r'flame draws with Bokeh.*"lazyflow\[diagnostics\]"'):
        Flame([], [], 0.01).figure()
