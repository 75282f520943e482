"""The benchmarks start, measure the right thing in turns, and say what they could not measure."""

import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest
from fault_tools import without_heartbeats

import lazyflow
from benchmarks import (
    __main__,
    actors,
    arrays,
    bench,
    engines,
    footprint,
    large,
    measure,
    overhead,
    pool_facts,
    processes,
    sides,
    soak,
    soak_graphs,
)
from benchmarks.measure import Goal, Row, Table, clock, take_turns

ROOT = Path(__file__).resolve().parents[2]


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
        for name, module in __main__.BENCHMARKS.items():
            assert f"  {name} " in out
            assert module.__doc__.splitlines()[0] in out

    def test_an_unknown_name_is_answered_with_the_known_ones(self, capsys):
        assert __main__.main(["overhaed"]) == 2
        known = "overhead, processes, actors, arrays, engines, all, soak, interrupts"
        said = f"no benchmark is named 'overhaed'; there is: {known}\n"
        assert capsys.readouterr().err == said

    @pytest.mark.parametrize("module", [overhead, processes, actors, engines])
    def test_help_has_a_sentence_for_each_case(self, module, capsys):
        with pytest.raises(SystemExit) as end:
            __main__.main([module.__name__.split(".")[1], "--help"])
        assert end.value.code == 0
        out = capsys.readouterr().out
        for name, case in module.CASES.items():
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


def run(tmp_path, *arguments, name="overhead"):
    path = tmp_path / "out.json"
    status = __main__.main([name, "--size", "tiny", "--json", str(path), *arguments])
    assert status == 0
    return json.loads(path.read_text())


def hide(monkeypatch, *names):
    """Let packages be as if they were not installed; `test_everything` has them."""
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in names else there(name)
    )


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """Run a case of a benchmark, or all that are quick, one turn each; once for all tests."""

    @cache
    def run_once(module, *cases):
        name = module.__name__.split(".")[1]
        cases = cases or [c for c in module.CASES if (name, c) != ("overhead", "starting")]
        printed = io.StringIO()
        with pytest.MonkeyPatch.context() as monkeypatch, redirect_stdout(printed):
            hide(monkeypatch, *HIDDEN[module])
            only = [word for case in cases for word in ("--only", case)]
            found = run(tmp_path_factory.mktemp(name), "--repeat", "1", *only, name=name)
        assert [case["name"] for case in found["cases"]] == list(cases)
        return found, printed.getvalue()

    return run_once


#: What takes seconds to start.
HIDDEN = {
    overhead: ["ray"],
    engines: ["ray"],
    processes: ["ray", "dask", "joblib"],
    actors: ["ray", "distributed"],
}


def case_of(found, name):
    return next(case for case in found["cases"] if case["name"] == name)


class TestOverhead:
    @pytest.mark.parametrize("name", [name for name in overhead.CASES if name != "starting"])
    def test_every_case_measures_lazyflow_and_says_why_others_are_absent(self, name, once):
        found, printed = once(overhead)
        case = case_of(found, name)
        assert "lazyflow" not in case["absent"]
        for row in case["rows"]:
            assert row["sides"]["lazyflow"]["median"] > 0
            for side in overhead.SIDES:
                assert side in row["sides"] or side in case["absent"]
        assert any(row["goal"] for row in case["rows"])
        assert not any("failed" in why for why in case["absent"].values())
        machine, size, *_ = printed.splitlines()
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

    def test_peers_that_are_not_installed_are_shown_as_such(self, tmp_path, capsys, monkeypatch):
        hide(monkeypatch, "dask", "joblib")
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
            overhead.Bench(overhead.SIZES["tiny"], 1) as given,
            pytest.raises(RuntimeError, match=r"^ValueError: mine$"),
        ):
            given.child("-c", "raise ValueError('mine')")

    def test_peak_memory_of_a_child_is_its_own(self):
        """A large parent must not count: ru_maxrss is handed down through fork and exec."""
        large = bytearray(b"1") * 300_000_000
        code = "from benchmarks.memory import peak_bytes; print(peak_bytes())"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert int(done.stdout) < len(large) / 2


class TestEngines:
    @pytest.mark.parametrize("name", ["tree", "busy"])
    def test_engines_alone_and_with_lazyflow(self, name, once):
        pytest.importorskip("distributed")
        found, printed = once(engines)
        case = case_of(found, name)
        assert not any("failed" in why for why in case["absent"].values())
        row = next(row for row in case["rows"] if row["label"] == "on distributed")
        assert row["sides"]["lazyflow"]["samples"] and row["sides"]["dask"]["samples"]
        assert row["result"] == pytest.approx(
            row["sides"]["dask"]["median"] / row["sides"]["lazyflow"]["median"])
        assert "2 workers with a thread each" in printed

    @pytest.mark.parametrize(("name", "labels"), [
        ("put", ["put", "50 readers"]), ("gradient", ["whole", "by tree_reduce"]),
    ])
    def test_the_eager_half_on_processes(self, name, labels, once):
        pytest.importorskip("distributed")
        case = case_of(once(engines)[0], name)
        assert not any("failed" in why for why in case["absent"].values())
        assert [row["label"] for row in case["rows"]] == labels
        for row in case["rows"]:
            assert row["sides"]["lazyflow"]["samples"]
        assert case["rows"][0]["goal"]

    def test_all_cases_are_tested(self):
        assert list(engines.CASES) == ["tree", "busy", "put", "gradient"]


class TestProcesses:
    @pytest.mark.parametrize("name", processes.CASES)
    def test_every_case_measures_lazyflow_and_says_why_others_are_absent(self, name, once):
        found, printed = once(processes, name)
        (case,) = found["cases"]
        assert not any("failed" in why for why in case["absent"].values())
        for row in case["rows"]:
            assert row["sides"]["lazyflow"]["samples"]
            assert {"dask", "dask pool=", "joblib", "ray"} <= set(case["absent"])
        assert any(row["goal"] for row in case["rows"])
        assert "size tiny; 2 worker processes on every side" in printed
        assert "not installed; pip install ray" in printed

    def test_values_stay_out_of_the_parent_and_kernels_are_compiled_once(self, once):
        rows = {
            row["label"]: row["result"]
            for name in ("arrays", "sweep")
            for row in case_of(once(processes, name)[0], name)["rows"]
        }
        assert rows["two readers, by parent"] <= 0.1
        assert rows["pairs, by parent"] <= 0.1
        assert rows["compilations a worker"] == 1

    def test_ratios_are_to_dask_as_its_users_call_it(self):
        row = Row("whole", "ms", {"lazyflow": [2.0], "dask": [200.0], "dask pool=": [30.0]})
        assert processes.against_dask(row) == ["whole: dask pool= / lazyflow is 15.0"]
        assert row.result == 100.0

    def test_a_pool_that_nothing_is_told_of_is_no_measurement(self, monkeypatch):
        monkeypatch.setattr(processes, "pool_facts", pool_facts.PoolFacts)
        with pytest.raises(RuntimeError, match="knows of no worker process"):
            processes.Counted(lambda: 1.0)()

    def test_a_large_result_that_is_wrong_is_no_measurement(self):
        turn = large.one_turn(lambda size: np.ones(size // 8), 80)
        assert turn["with_read"] >= turn["seconds"] > 0
        with pytest.raises(AssertionError, match="wrong answer"):
            large.one_turn(np.ones, 16)

    def test_pools_are_made_once_per_number_of_workers(self):
        pools = sides.Pools()
        assert pools(1) is pools(1) is not pools(2)
        pools.shutdown()


class TestActors:
    @pytest.mark.parametrize("name", actors.CASES)
    def test_every_case_measures_actors_and_says_why_others_are_absent(self, name, once):
        case = case_of(once(actors)[0], name)
        assert set(case["absent"]) == {"ray", "distributed"}
        for row in case["rows"]:
            assert row["sides"]["lazyflow"]["samples"]
            assert row["sides"]["threads"]["samples"]


@pytest.mark.slow
class TestArrays:
    @pytest.mark.parametrize("name", arrays.CASES)
    def test_every_case_measures_arrays_and_says_why_others_are_absent(
        self, name, tmp_path, monkeypatch
    ):
        hide(monkeypatch, "dask", "numexpr")
        (case,) = run(tmp_path, "--only", name, "--repeat", "1", name="arrays")["cases"]
        assert "dask" in case["absent"]
        assert not any("failed" in why for why in case["absent"].values())
        assert any(row["sides"].get("lazyflow", {}).get("samples") for row in case["rows"])
        assert any(row["goal"] for row in case["rows"])


@pytest.mark.parametrize(("module", "only"), [
    (overhead, ["chain", "persist"]),
    (processes, ["single"]),
    *(pytest.param(module, [], marks=pytest.mark.slow)
      for module in (actors, overhead, processes, engines)),
])
def test_everything_as_a_user_would_type_it(module, only, tmp_path):
    """All cases take minutes where all peers are installed."""
    path, name = tmp_path / "out.json", module.__name__.split(".")[1]
    command = [sys.executable, "-m", "benchmarks", name, "--size", "tiny", "--json", path]
    command += [word for case in only for word in ("--only", case)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, without_heartbeats(done.stderr)) == (0, "")
    cases = json.loads(path.read_text())["cases"]
    assert [case["name"] for case in cases] == (only or list(module.CASES))
    assert not any("failed" in why for case in cases for why in case["absent"].values())


class TestRandomGraphs:
    def test_one_seed_is_one_graph_whoever_persists(self):
        def values(seed, persist):
            with lazyflow.config.set(scheduler="sync"):
                return lazyflow.compute(soak_graphs.grow(Random(seed), 60, persist))

        def persisted(nodes):
            return list(lazyflow.persist(*nodes))

        for seed in range(5):
            assert soak_graphs.same(values(seed, list), values(seed, persisted))
        assert not soak_graphs.same(values(1, list), values(2, list))

    @pytest.mark.parametrize(
        ("left", "right"),
        [
            (1, True),
            ([1], (1,)),
            (np.arange(3), np.arange(3.0)),
            (np.arange(3), np.arange(4)),
            ({"a": np.arange(3)}, {"a": np.array([0, 1, 3])}),
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ],
    )
    def test_equal_means_every_bit_and_type(self, left, right):
        assert soak_graphs.same(left, left)
        assert not soak_graphs.same(left, right)


@pytest.fixture
def sleepers(monkeypatch):
    """Let threads do the work, and children that sleep be the workers that are killed."""
    there = []

    def facts():
        there[:] = [p for p in there if p.poll() is None]
        while len(there) < 2:
            there.append(subprocess.Popen(["sleep", "1000"]))
        return pool_facts.PoolFacts(pids=tuple(p.pid for p in there))

    def shutdown():
        for process in there:
            process.kill()
            process.wait()
        there.clear()

    monkeypatch.setattr(soak, "SCHEDULER", "threads")
    monkeypatch.setattr(soak, "pool_facts", facts)
    monkeypatch.setattr(lazyflow, "shutdown", shutdown)
    monkeypatch.setenv(footprint.MARK, "")
    yield there
    shutdown()


SHORT = ["soak", "--kills", "3", "--seconds-between", "0.02"]


@pytest.mark.filterwarnings("ignore:crash_retries= of .* has no effect")
class TestSoak:
    def test_a_wrong_result_is_found_and_its_seed_told(self, sleepers, monkeypatch, capsys):
        grow, answers = soak_graphs.grow, []

        def other_every_time(random, tasks, persist):
            answers.append(None)
            return [len(answers), *grow(random, tasks, persist)]

        monkeypatch.setattr(soak_graphs, "grow", other_every_time)
        assert __main__.main([*SHORT, "--callers", "1", "--seed", "7"]) == 1
        out, err = capsys.readouterr()
        assert out.endswith("NOT GOOD\n")
        assert "seed 7000000: wrong: " in err

    def test_an_error_is_found(self, sleepers, monkeypatch, capsys):
        monkeypatch.setattr(soak, "SCHEDULER", "no such scheduler")
        assert __main__.main(SHORT) == 1
        out, err = capsys.readouterr()
        assert "wrong 0, failed " in out and "failed 0" not in out
        assert "ValueError: unknown scheduler 'no such scheduler'" in err

    def test_what_is_left_is_found(self, sleepers, monkeypatch, capsys):
        """A descriptor a graph, and a process that `shutdown` forgets."""
        grow, opened = soak_graphs.grow, []
        forgotten = []

        def leaking(random, tasks, persist):
            opened.append(os.open(os.devnull, os.O_RDONLY))
            if len(opened) == 30:
                forgotten.append(subprocess.Popen(["sleep", "1000"]))
            return grow(random, min(tasks, 10), persist)

        monkeypatch.setattr(soak_graphs, "grow", leaking)
        monkeypatch.setattr(soak, "settled", lambda quiet, seconds=0: footprint.settled(quiet, 0.2))
        try:
            assert __main__.main([*SHORT, "--kills", "10"]) == 1
            left = next(
                line for line in capsys.readouterr().out.splitlines() if line.startswith("left: ")
            )
            assert f"processes [{forgotten[0].pid}]" in left and "descriptors " in left
        finally:
            for descriptor in opened:
                os.close(descriptor)
            for process in forgotten:
                process.kill()
                process.wait()

    def test_only_live_children_are_killed(self):
        child = subprocess.Popen(["sleep", "1000"])
        assert not soak.kill(os.getpid()) and not soak.kill(os.getppid())
        assert soak.kill(child.pid)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not soak.kill(child.pid)  # it has ended, and nobody has waited for it yet
        assert child.wait() == -signal.SIGKILL
        assert not soak.kill(child.pid)

    def test_an_orphan_is_found(self, monkeypatch):
        monkeypatch.setenv(footprint.MARK, str(os.getpid()))
        done = subprocess.run(
            ["sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!"],
            capture_output=True, text=True, check=True, start_new_session=True,
        )  # fmt: skip
        orphan = int(done.stdout)
        try:
            assert orphan in footprint.marked()
        finally:
            os.kill(orphan, signal.SIGKILL)
        gone = footprint.settled(lambda now: orphan not in now.processes)
        assert orphan not in gone.processes

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--kills", "-1"], "--kills -1: at least 0"),
            (["--callers", "0"], "--callers 0: at least 1"),
            (["--json", "no/such/folder/x.json"], "the folder of no/such/folder/x.json"),
        ],
    )
    def test_bad_options_are_found_before_anything_runs(self, arguments, said, capsys):
        with pytest.raises(SystemExit) as end:
            __main__.main(["soak", *arguments])
        assert end.value.code == 2
        assert said in capsys.readouterr().err

    @pytest.mark.parametrize("options", [
        ["--kills", "5"],
        ["--kills", "0", "--persist-steps", "30", "--seconds-between", "0.5"],  # few, or no, kills
    ])
    def test_workers_of_ours_are_killed_and_nothing_is_wrong(self, options, tmp_path):
        """In a process of its own: the suite's threads come and go meanwhile, and its memory."""
        path = tmp_path / "soak.json"
        command = [sys.executable, "-m", "benchmarks", "soak", *options]
        command += ["--patience", "20", "--json", path]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert done.stdout.endswith("good\n")
        found = json.loads(path.read_text())
        assert found["good"] and not found["left"] and not found["trouble"]
        assert found["computes"] >= 10
        assert found["steps"] == (30 if "--persist-steps" in options else 0)
        if options[1] == "5":
            assert found["kills"] == found["deaths"] == 5
