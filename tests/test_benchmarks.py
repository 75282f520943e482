"""The benchmarks start, measure the right thing in turns, and say what they could not measure."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import __main__, bench, measure, overhead
from benchmarks.measure import Goal, Row, Table, clock, take_turns

ROOT = Path(__file__).resolve().parents[1]


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

    def test_a_wrong_answer_is_no_measurement(self):
        assert clock(lambda: [1, 2], [1, 2]) >= 0
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
        expected = "whole, µs/task 1.50 (1.25) 120 (120) - - 80.0"
        assert line.split() == expected.split()
        assert note.strip() == "a note"

    def test_a_reason_that_several_cases_share_is_given_once(self):
        other = Table("chain", "a chain", [], absent={"joblib": "not installed"})
        assert measure.absence_lines([self.table, other]) == [
            "- joblib (tree, chain): not installed"
        ]

    def test_a_plot_is_drawn(self, tmp_path):
        pytest.importorskip("matplotlib")
        measure.plot(str(tmp_path / "bars.png"), measure.machine(), [self.table])
        assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")

    def test_nothing_in_microseconds_is_nothing_to_plot(self, tmp_path):
        pytest.importorskip("matplotlib")
        with pytest.raises(SystemExit, match="nothing to plot"):
            measure.plot(str(tmp_path / "bars.png"), measure.machine(), [])
        assert not list(tmp_path.iterdir())


class TestCommand:
    def test_alone_it_lists_what_there_is(self, capsys):
        assert __main__.main([]) == 0
        out = capsys.readouterr().out
        assert "overhead" in out
        assert overhead.__doc__.splitlines()[0] in out

    def test_an_unknown_name_is_answered_with_the_known_ones(self, capsys):
        assert __main__.main(["overhaed"]) == 2
        assert capsys.readouterr().err == ("no benchmark is named 'overhaed'; there is: overhead\n")

    def test_help_has_a_sentence_for_each_case(self, capsys):
        with pytest.raises(SystemExit) as end:
            __main__.main(["overhead", "--help"])
        assert end.value.code == 0
        out = capsys.readouterr().out
        for name, case in overhead.CASES.items():
            assert name in out and bench.title_of(case) in out

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--repeat", "0"], "--repeat 0: at least 1"),
            (["--json", "no/such/folder/x.json"], "the folder of no/such/folder/x.json"),
            (["--only", "trees"], "invalid choice: 'trees'"),
        ],
    )
    def test_bad_options_are_found_before_anything_is_measured(self, arguments, said, capsys):
        with pytest.raises(SystemExit) as end:
            __main__.main(["overhead", "--size", "tiny", *arguments])
        assert end.value.code == 2
        assert said in capsys.readouterr().err


def run(tmp_path, *arguments):
    path = tmp_path / "out.json"
    status = __main__.main(["overhead", "--size", "tiny", "--json", str(path), *arguments])
    assert status == 0
    return json.loads(path.read_text())


class TestOverhead:
    @pytest.mark.parametrize("name", [name for name in overhead.CASES if name != "starting"])
    def test_every_case_measures_lazyflow_and_says_why_others_are_absent(
        self, name, tmp_path, capsys
    ):
        found = run(tmp_path, "--only", name, "--repeat", "1")
        (case,) = found["cases"]
        assert case["name"] == name
        assert "lazyflow" not in case["absent"]
        for row in case["rows"]:
            assert row["sides"]["lazyflow"]["median"] > 0
            for side in measure.SIDES:
                assert side in row["sides"] or side in case["absent"]
        assert any(row["goal"] for row in case["rows"])
        assert not any("failed" in why for why in case["absent"].values())
        machine, size, *_ = capsys.readouterr().out.splitlines()
        assert machine == measure.machine_line(found["machine"])
        assert size == "size tiny; 2 threads on every side"

    def test_starting_measures_fresh_processes(self, tmp_path, capsys, monkeypatch):
        """Without the peers, which take seconds to be compiled; `test_everything` has them."""
        ours = {
            label: {side: code for side, code in codes.items() if side in ("lazyflow", "futures")}
            for label, codes in overhead.STARTS.items()
        }
        monkeypatch.setattr(overhead, "STARTS", ours)
        (case,) = run(tmp_path, "--only", "starting", "--repeat", "1")["cases"]
        assert [row["label"] for row in case["rows"]] == ["import", "import, one result"]
        assert all(set(row["sides"]) == {"lazyflow", "futures"} for row in case["rows"])
        assert "`python -c pass` is" in capsys.readouterr().out

    @pytest.mark.slow
    def test_everything_as_a_user_would_type_it(self, tmp_path):
        path = tmp_path / "out.json"
        command = [sys.executable, "-m", "benchmarks", "overhead", "--size", "tiny", "--json", path]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        cases = json.loads(path.read_text())["cases"]
        assert [case["name"] for case in cases] == list(overhead.CASES)
        assert not any("failed" in why for case in cases for why in case["absent"].values())

    def test_peers_that_are_not_installed_are_shown_as_such(self, tmp_path, capsys, monkeypatch):
        there = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda n: None if n in ("dask", "joblib") else there(n)
        )
        (case,) = run(tmp_path, "--only", "tree", "--repeat", "1")["cases"]
        assert set(case["rows"][0]["sides"]) == {"lazyflow", "futures"}
        why = "not installed; pip install 'lazyflow[bench]'"
        assert case["absent"]["dask"] == case["absent"]["joblib"] == why
        assert f"- dask (tree): {why}" in capsys.readouterr().out

    def test_a_failure_of_ours_meets_no_goal(self, tmp_path, monkeypatch):
        monkeypatch.setattr(bench.Bench, "child", lambda *_: "1.0 1024 False")
        (case,) = run(tmp_path, "--only", "million")["cases"]
        assert case["absent"]["lazyflow"] == "sum failed: wrong answer"
        assert [row["met"] for row in case["rows"]] == [False] * 4

    def test_a_fresh_process_that_fails_says_how(self):
        with (
            bench.Bench(bench.SIZES["tiny"], 1) as given,
            pytest.raises(RuntimeError, match=r"^ValueError: mine$"),
        ):
            given.child("-c", "raise ValueError('mine')")

    def test_peak_memory_of_a_child_is_its_own(self):
        """A large parent must not count: ru_maxrss is handed down through fork and exec."""
        large = bytearray(b"1") * 300_000_000
        code = "from benchmarks.shapes import peak_bytes; print(peak_bytes())"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert int(done.stdout) < len(large) / 2
