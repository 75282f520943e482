"""The timeline: lanes, bars, and a page that loads nothing and runs nothing of the user's."""

import re
import sys

import pytest

import lazyflow
from lazyflow import compute, delayed
from lazyflow.diagnostics.profiling.pages import FAILED, bars_of
from lazyflow.diagnostics.profiling.records import RunRecord, TaskRecord, gaps, rows_by_worker

EVIL = "</script><script>document.title='EVIL'</script><img src=x onerror=alert(1)>"


def task(start, end, worker="w-1", function="m.f", **more):
    fields = {"cpu": None, "size": None, "failed": False} | more
    return TaskRecord(function[2:], function, "a.py:1 in f", 0, worker, start, end, **fields)


def run(start, end):
    return RunRecord(start, end, "a.py:2 in main", True, "threads", 3, 1)


def test_tasks_that_overlap_on_a_worker_stand_in_rows_of_their_own():
    outer, inner, later = task(0, 5), task(1, 2), task(3, 4)
    other = task(0, 1, "w-10")
    rows = rows_by_worker([later, other, inner, outer, task(6, 7, "w-2"), task(0, 0, "")])
    assert list(rows) == ["w-1", "w-2", "w-10"]
    assert rows["w-1"] == [[outer], [inner, later]]


def test_gaps_are_the_times_without_a_run():
    runs = [run(2, 5), run(3, 4), run(1, 3), run(7, 9)]
    assert gaps(runs, [], 12.0) == [(0.0, 1), (5, 7), (9, 12.0)]
    assert gaps([run(0, 5)], [], 3.0) == []
    assert gaps([], [task(0, 3)], 3.0) == [(0.0, 3.0)]
    assert gaps([run(0, 1)], [task(2, 3)._replace(run=-1)], 4.0) == [(1, 2), (3, 4.0)]


def test_bars_have_lanes_colours_and_words():
    tasks = [task(1, 2, cpu=0.25, size=2000), task(1, 3, "w-2", "m.g", failed=True)]
    lanes, groups = bars_of(tasks, [run(1, 3)], 4.0)
    assert lanes == ["caller", "w-1", "w-2"]
    assert list(groups) == ["run", "outside of runs", FAILED, "f"]
    (bar,) = groups["f"]
    assert (bar.lane, bar.left, bar.right) == (1, 1, 2)
    assert (bar.what, bar.function, bar.place) == ("f", "m.f", "a.py:1 in f")
    assert bar.time == "1 s, result of 2 kB"
    assert bar.cpu == "250 ms (25%)"
    assert groups[FAILED][0].what == "g (failed)"
    assert [(b.left, b.right) for b in groups["outside of runs"]] == [(0.0, 1), (3, 4.0)]
    assert groups["run"][0].what == "run of 3 tasks on threads"


def test_functions_with_less_time_share_a_colour():
    tasks = [task(k, k + 0.5 + k / 100, function=f"m.f{k}") for k in range(15)]
    _, groups = bars_of(tasks, [], 20.0)
    assert list(groups)[1:] == [f"f{k}" for k in range(14, 4, -1)] + ["other functions"]
    assert len(groups["other functions"]) == 5
    assert len({bars[0].color for bars in groups.values()}) == len(groups)


def test_many_short_tasks_share_bars_and_long_or_failed_ones_do_not():
    tasks = [task(k / 1000, k / 1000 + 0.0005, function=f"m.f{k % 2}") for k in range(10_000)]
    tasks += [task(20, 25, function="m.long"), task(26, 26.0001, failed=True)]
    _, groups = bars_of(tasks, [], 30.0, most=500)
    bars = [bar for label, some in groups.items() if label != "outside of runs" for bar in some]
    assert len(bars) <= 500
    assert len(groups["long"]) == len(groups[FAILED]) == 1
    shared = [bar for bar in bars if "short tasks; the longest" in bar.what]
    assert sum(int(bar.what.split()[0].replace(",", "")) for bar in shared) == 10_000


class TestPage:
    @pytest.fixture(autouse=True)
    def _bokeh(self):
        pytest.importorskip("bokeh")

    def test_it_loads_nothing_and_has_the_summary(self, tmp_path):
        with lazyflow.profile() as p:
            compute([delayed(abs)(-i) for i in range(9)])
        path = tmp_path / "timeline.html"
        figure = p.timeline(path)
        page = path.read_text(encoding="utf-8")
        own = re.sub(r"<script[^>]*>.*?</script>", "", page, flags=re.DOTALL)
        assert not re.search(r"(src|href)\s*=|@import|url\(", own)
        assert not re.search(r"<script[^>]*\ssrc", page)
        assert "default-src 'none'" in page
        assert "9 tasks of 1 function in 1 run" in own
        assert figure.yaxis[0].major_label_overrides[0].text == "caller"

    def test_hostile_names_do_nothing(self, tmp_path):
        def evil():
            pass

        evil.__name__ = evil.__qualname__ = EVIL
        with lazyflow.profile() as p:
            compute(
                delayed(evil)(), delayed(evil, name=EVIL + "\x00\u202e")(),
                delayed(evil, name="x" * 1_000_000)(),
            )
        path = tmp_path / "timeline.html"
        p.timeline(path)
        page = path.read_text(encoding="utf-8")
        assert EVIL[:40] not in page
        assert "<img src=x" not in page
        assert "<script>document" not in page
        assert "x" * 100 not in page
        assert "\x00" not in page
        assert "\u202e" not in page

    def test_nothing_ran(self):
        with lazyflow.profile() as p:
            pass
        assert p.timeline() is not None


def test_without_bokeh_it_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh.models", None)
    with lazyflow.profile() as p:
        pass
    with pytest.raises(ImportError, match=r'Type: pip install "lazyflow\[diagnostics\]"'):
        p.timeline()
