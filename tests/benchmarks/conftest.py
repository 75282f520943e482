"""Runs of the benchmarks that several tests look at."""

import io
from contextlib import redirect_stdout
from functools import cache

import pytest
from benchmark_tools import hide, run

from benchmarks import actors, engines, neighbours, overhead, processes

#: What takes seconds to start.
HIDDEN = {
    overhead: ["ray"],
    engines: ["ray"],
    processes: ["ray", "dask", "joblib"],
    actors: ["ray", "distributed"],
    neighbours: [],
}


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
