"""Each benchmark measures lazyflow, meets what it claims, and says why others are absent."""

import subprocess
import sys

import numpy as np
import pytest
from benchmark_tools import ROOT, case_of, hide, run

from benchmarks import (
    actors,
    arrays,
    bench,
    engines,
    large,
    larger_than_memory,
    measure,
    neighbours,
    overhead,
    pool_facts,
    processes,
    sides,
)
from benchmarks.measure import Row


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


@pytest.mark.slow  # for every commit .ci/run runs the benchmarks themselves, at this size
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
    @pytest.mark.slow  # as above
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


@pytest.mark.slow  # as above
class TestActors:
    @pytest.mark.parametrize("name", actors.CASES)
    def test_every_case_measures_actors_and_says_why_others_are_absent(self, name, once):
        case = case_of(once(actors)[0], name)
        assert set(case["absent"]) == {"ray", "distributed"}
        for row in case["rows"]:
            assert row["sides"]["lazyflow"]["samples"]
            assert row["sides"]["threads"]["samples"]


@pytest.mark.parametrize("name", neighbours.CASES)
def test_every_case_of_neighbours_measures_both_sides(name, once):
    case = case_of(once(neighbours)[0], name)
    assert not any("failed" in why for why in case["absent"].values())
    for row in case["rows"]:
        assert row["sides"]["lazyflow"]["samples"] and len(row["sides"]) > 1
        assert row["result"] is not None and row["goal"]


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


def test_larger_than_memory_measures_a_case_in_a_process_of_its_own():
    limit = 16 << 20
    value, peak, seconds = larger_than_memory.measured("lazyflow", "x.sum()", limit, 60)
    count = 4 * limit // 8
    assert value == pytest.approx((count - 1) / 2)
    assert peak > limit / 2 and seconds > 0  # the interpreter's own memory is above this limit
    assert "y" in larger_than_memory.measured("lazyflow", "y.sum()", limit, 60)  # the error's text
