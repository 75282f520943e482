"""No rule of advice speaks of what the benchmarks have lazyflow do."""

import pytest
from benchmark_tools import hide

import lazyflow
from benchmarks import actors, arrays, bench, overhead, processes, solvers

#: Cases of which lazyflow's side runs in processes of its own, where no profile of ours hears.
ELSEWHERE = {
    "anomaly", "build", "cores", "first", "imports", "large", "million", "rechunk", "single",
    "starting",
}

QUICK = [
    (suite, name) for suite in (overhead, actors, processes) for name in suite.CASES
    if name not in ELSEWHERE
]
LONG = [
    (suite, name) for suite in (arrays, solvers) for name in suite.CASES if name not in ELSEWHERE
]


@pytest.fixture
def told(monkeypatch):
    """Have only lazyflow's turns taken, each in a block; return the advice on them and blocks."""
    found, blocks = [], []
    measure = bench.Bench.measure

    def watched(turn):
        def go():
            with lazyflow.profile() as p:
                seconds = turn()
            found.extend(map(str, p.advice()))
            blocks.append(len(p.runs) + len(p.tasks))
            return seconds
        return go

    def ours(self, turns, *args, **options):
        mine = {label: watched(turn) for label, turn in turns.items() if label[1] == "lazyflow"}
        return measure(self, mine, *args, **options)

    monkeypatch.setattr(bench.Bench, "measure", ours)
    hide(monkeypatch, "dask", "joblib", "ray", "distributed", "sklearn", "numexpr")
    return found, blocks


def no_advice(suite, name, told):
    """What a busy machine does to the times is not advised on in each of three turns."""
    found, blocks = told
    for _ in range(3):
        found.clear()
        with suite.Bench(suite.SIZES["tiny"], 1) as given:
            suite.CASES[name](given)
        assert any(blocks)
        if not found:
            return
    assert found == []


@pytest.mark.parametrize(("suite", "name"), QUICK)
def test_benchmarks_of_graphs_get_no_advice(suite, name, told):
    no_advice(suite, name, told)


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "name"), LONG)
def test_benchmarks_of_arrays_and_solvers_get_no_advice(suite, name, told):
    no_advice(suite, name, told)
