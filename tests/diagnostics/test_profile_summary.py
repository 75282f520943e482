"""The summary of a profile: figures by function, as text and as HTML."""

import pytest

import lazyflow
from lazyflow.diagnostics.profiling.records import RunRecord, TaskRecord
from lazyflow.diagnostics.profiling.summary import Summary


def task(function="mod.f", start=0.0, seconds=1.0, worker="w-1", **more):
    fields = {"cpu": seconds, "size": None, "failed": False} | more
    end = start + seconds
    return TaskRecord(function, function, "a.py:1 in f", 0, worker, start, end, **fields)


def run(start, end, tasks=1):
    return RunRecord(start, end, "a.py:2 in main", True, "threads", tasks, 1)


def test_rows_have_the_figures_of_a_function_that_with_the_most_time_first():
    tasks = [task("m.slow", 0, 9.0, cpu=4.5, size=10), task("m.slow", 9, 1.0, cpu=0.5, size=32)]
    tasks = [tasks[0]._replace(moved=7), tasks[1]._replace(compiled=0.25)]
    tasks += [task("m.fast", 0, 0.001 * k, failed=k > 18) for k in range(1, 21)]
    slow, fast = Summary(tasks, [run(0, 10)], 10.0).rows
    assert slow == ("slow", 2, 10.0, 5.0, 9.0, 0.5, 0, 42, 7, 0.25)
    assert (fast.function, fast.calls, fast.failed, fast.size) == ("fast", 20, 2, None)
    assert fast.p95 == pytest.approx(0.019)
    assert fast.mean == pytest.approx(0.0105)


def test_functions_of_one_name_keep_their_modules():
    tasks = [task("a.load"), task("b.load"), task("a.sum")]
    assert {row.function for row in Summary(tasks, [], 1.0).rows} == {"a.load", "b.load", "sum"}


def test_an_unknown_cpu_share_is_left_out():
    summary = Summary([task(cpu=None)], [run(0, 1)], 1.0)
    assert summary.rows[0].cpu is None
    assert "CPU" not in repr(summary)


def test_text():
    tasks = [
        task("m.load", 1.0, 0.5, cpu=0.05, size=2_000_000),
        task("m.load", 1.0, 0.5, "w-2", cpu=0.05, size=2_000_000),
        task("m.inc", 1.5, 4e-6, failed=True),
    ]
    assert repr(Summary(tasks, [run(1.0, 2.0, 3)], 4.0)).splitlines() == [
        "3 tasks of 2 functions in 1 run on 2 workers; 4 s, of which 3 s (75%) outside of runs, in "
        "the caller's own code; workers were busy for 50% of the rest",
        "function  calls  total    mean     p95   CPU  failed  bytes",
        "load          2    1 s  500 ms  500 ms   10%           4 MB",
        "inc           1   4 µs    4 µs    4 µs  100%       1",
    ]


def test_bytes_moved_and_compile_time_have_columns_where_they_are_known():
    tasks = [task("m.f", moved=2_000_000, compiled=0.25), task("m.g", seconds=0.5)]
    assert repr(Summary(tasks, [run(0, 1)], 1.0)).splitlines()[1:] == [
        "function  calls   total    mean     p95   CPU  moved  compile",
        "f             1     1 s     1 s     1 s  100%   2 MB   250 ms",
        "g             1  500 ms  500 ms  500 ms  100%",
    ]


def test_nothing_ran():
    assert repr(Summary([], [], 2.0)) == (
        "0 tasks of 0 functions in 0 runs on 0 workers; 2 s, of which 2 s (100%) outside of runs, "
        "in the caller's own code"
    )
    assert "<td" not in Summary([], [], 2.0)._repr_html_()


def test_html_is_escaped():
    html = Summary([task('m.<script>alert(1)</script>"&')], [run(0, 1)], 1.0)._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&amp;" in html
    assert html.count("<tr>") == 2


def test_a_profile_shows_its_summary_in_a_notebook():
    with lazyflow.profile() as p:
        lazyflow.delayed(abs)(-1).compute()
    assert p._repr_html_() == p.summary()._repr_html_()
