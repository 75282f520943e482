"""Sides take turns, goals are judged, and a table says what could not be measured."""

import pytest

from benchmarks import measure
from benchmarks.measure import Goal, Row, Table, clock, take_turns


def pretend(log, label, seconds=0.0, fails_at=None):
    """Make a turn that says it took `seconds`."""

    def turn():
        log.append(label)
        if log.count(label) == fails_at:
            raise RecursionError("too deep")
        return seconds

    return turn


class TestTurns:
    def test_every_side_warms_up_once_and_then_they_alternate(self):
        log = []
        turns = {("whole", side): pretend(log, side, 2.0) for side in ("lazyflow", "dask")}
        samples, failed = take_turns(turns, repeat=3, at_least=1)
        assert log == ["lazyflow", "dask"] * 4
        assert samples == {("whole", "lazyflow"): [2.0] * 3, ("whole", "dask"): [2.0] * 3}
        assert failed == {}

    def test_a_slow_side_stops_early_but_not_before_its_least(self):
        log = []
        turns = {
            ("whole", "lazyflow"): pretend(log, "lazyflow", 0.1),
            ("whole", "dask"): pretend(log, "dask", 100.0),
        }
        samples, _ = take_turns(turns, repeat=5, at_least=3, seconds=6.0)
        assert len(samples["whole", "lazyflow"]) == 5
        assert samples["whole", "dask"] == [100.0] * 3

    @pytest.mark.parametrize("fails_at", [1, 3])
    def test_a_side_that_fails_is_dropped_with_its_reason(self, fails_at):
        log = []
        turns = {
            ("whole", "dask"): pretend(log, "dask", fails_at=fails_at),
            ("whole", "lazyflow"): pretend(log, "lazyflow"),
        }
        samples, failed = take_turns(turns, repeat=3, at_least=1)
        assert log.count("dask") == fails_at
        assert failed == {"dask": "failed: RecursionError: too deep"}
        assert list(samples) == [("whole", "lazyflow")]

    def test_the_clock_runs_over_the_work_alone(self, monkeypatch):
        monkeypatch.setattr(measure.time, "perf_counter", iter([10.0, 12.5]).__next__)
        assert clock(lambda: [1, 2], [1, 2]) == 2.5

    def test_a_wrong_answer_is_no_measurement(self):
        with pytest.raises(AssertionError, match=r"^wrong answer: \[1, 3\]$"):
            clock(lambda: [1, 3], [1, 2])


class TestGoals:
    def test_bounds_hold_on_the_bound(self):
        assert Goal(">=", 40).met_by(40) and not Goal(">=", 40).met_by(39.9)
        assert Goal("<=", 0.5).met_by(0.5) and not Goal("<=", 0.5).met_by(0.51)
        assert (str(Goal(">=", 40)), str(Goal("<=", 0.5))) == ("≥ 40", "≤ 0.5")

    def test_verdicts(self):
        def said(**of):
            return measure.verdict(Row("whole", "µs/task", **of))

        goal = Goal(">=", 40)
        assert said(result=41.0) == ""
        assert said(result=41.0, goal=goal) == "≥ 40  met"
        assert said(result=39.0, goal=goal) == "≥ 40  NOT MET"
        assert said(result=41.0, goal=goal, why_unjudged="(tiny)") == "≥ 40  (tiny)"
        assert said(goal=goal) == "≥ 40  not measured"
        assert said(goal=goal, broken=True, why_unjudged="(tiny)") == "≥ 40  NOT MET"


class TestTable:
    table = Table(
        "tree",
        "a tree",
        [Row("whole", "µs/task", {"lazyflow": [1.5, 1.25, 9.0], "dask": [120.0]}, result=80.0)],
        amount="9 tasks",
        absent={"joblib": "not installed"},
        notes=["a note"],
    )

    def test_a_line_has_median_and_least_of_each_side(self):
        title, line, note = measure.table_lines(self.table)
        assert title == "tree (9 tasks): a tree"
        expected = "whole, µs/task 1.50 (1.25) 120 (120) - - - - 80.0"
        assert line.split() == expected.split()
        assert note.strip() == "a note"

    def test_columns_are_those_of_the_sides_that_the_benchmark_names(self):
        sides = ("dask", "lazyflow")
        line = measure.table_lines(self.table, sides)[1]
        assert line.split() == ["whole,", "µs/task", "120", "(120)", "1.50", "(1.25)", "80.0"]
        heading = measure.heading(sides)
        assert heading.split() == ["median", "(min)", "dask", "lazyflow", "result", "goal"]
        assert line.index("(120)") + len("(120)") == heading.index("dask") + len("dask")

    def test_a_reason_that_several_cases_share_is_given_once(self):
        other = Table("chain", "a chain", [], absent={"joblib": "not installed"})
        assert measure.absence_lines([self.table, other]) == [
            "- joblib (tree, chain): not installed"
        ]
