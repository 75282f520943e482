"""Random graphs whose workers are killed: what is wrong or left behind is found and told."""

import json
import os
import signal
import subprocess
import sys
from itertools import count
from random import Random

import numpy as np
import pytest
from benchmark_tools import ROOT
from weaker_systems import kills_by_pidfd

import lazyflow
from benchmarks import __main__, footprint, pool_facts, soak, soak_graphs


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
    there, tasks = [], count()

    def facts():
        there[:] = [p for p in there if p.poll() is None]
        while len(there) < 2:
            there.append(subprocess.Popen(["sleep", "1000"]))
        return pool_facts.PoolFacts(pids=tuple(p.pid for p in there), tasks=next(tasks))

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
    @kills_by_pidfd
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

    @kills_by_pidfd
    def test_an_error_is_found(self, sleepers, monkeypatch, capsys):
        monkeypatch.setattr(soak, "SCHEDULER", "no such scheduler")
        assert __main__.main(SHORT) == 1
        out, err = capsys.readouterr()
        assert "wrong 0, failed " in out and "failed 0" not in out
        assert "ValueError: unknown scheduler 'no such scheduler'" in err

    @kills_by_pidfd
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

    @kills_by_pidfd
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

    @kills_by_pidfd
    @pytest.mark.parametrize("options", [
        pytest.param(["--kills", "5"], marks=pytest.mark.slow),  # .ci/run has 50
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

    def test_chunks_go_through_a_memory_limit_and_nothing_is_wrong_or_left(self, capfd):
        assert __main__.main(["soak", "--through", "0.15", "--limit", "128"]) == 0
        assert capfd.readouterr().out.endswith("good\n")
