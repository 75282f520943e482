"""Advice on large values: sent, fetched, captured, and filling memory."""

from functools import partial
from typing import Any

import pytest
from advice_records import found, rules, run, task, use

import lazyflow
from lazyflow import compute, delayed
from lazyflow.diagnostics.profiling.advice import Advice
from lazyflow.diagnostics.profiling.graph_facts import CapturedData, LargeArgument, Sights
from lazyflow.diagnostics.profiling.records import SpilledValues
from lazyflow.schedulers.remote.large_values import KnownValue

np = pytest.importorskip("numpy")

MB = 1_000_000


def sent(nbytes: int, times: int, origin: str = "", one: bool = True, **more: Any) -> list[Any]:
    """Return runs, one after the other, each with a large argument."""
    made = [KnownValue(lambda: None, b"", nbytes) for _ in range(times)]  # type: ignore[arg-type]
    return [
        run(k, k + 1, scheduler="processes", tasks=9, sights=Sights(large=(
            LargeArgument(made[0 if one else k], "argument 'x' of f", nbytes, "main.py:5", origin),
        )), **more)
        for k in range(times)
    ]


def holding(nbytes: int, functions: int = 1, **more: Any) -> list[Any]:
    held = CapturedData("f", "variable 'table', ndarray(9,) int64", nbytes, functions, "main.py:5")
    return [run(0, 5, scheduler="processes", tasks=9, sights=Sights(captured=(held,)), **more)]


def only(advice: list[Advice], rule: str) -> Advice:
    (one,) = [each for each in advice if each.rule == rule]
    return one


class TestLargeValuesAgain:
    def test_each_compute_sends_it(self):
        (one,) = found([], sent(800 * MB, 5))
        assert str(one) == (
            "argument 'x' of f, was sent to the workers by 5 computes, 4 GB in all (main.py:5) - "
            "each compute copies it anew - put it there once, x = lazyflow.put(x), and pass that"
        )

    def test_quiet(self):
        assert rules([], sent(800 * MB, 2)) == []  # once more is no habit
        assert rules([], sent(1 * MB, 5)) == []  # it takes no time
        assert rules([], sent(800 * MB, 5, one=False)) == []  # each is another value
        assert rules([], sent(800 * MB, 5, user=False)) == []

    def test_in_a_program(self):
        x = np.random.default_rng(0).normal(size=1_500_000)
        with pytest.warns(lazyflow.LazyflowWarning, match="copied for the workers"), \
                lazyflow.profile() as p:
            for i in range(12):
                delayed(at)(x, i).compute(scheduler="processes")
        with lazyflow.config.set(scheduler="processes"), lazyflow.profile() as put:
            x = lazyflow.put(x)
            for i in range(12):
                delayed(at)(x, i).compute()
        large = [each for one in p.runs for each in one.sights.large]
        assert len(large) == 12 and len({id(each.value) for each in large}) == 1
        assert large[0].what == "argument 'x' of at, ndarray(1500000,) float64"
        assert large[0].place.endswith("test_in_a_program")
        one = only(found(p.tasks, p.runs, 0.1), "large values again and again")
        assert "by 12 computes, 144 MB in all" in one.seen
        assert [one.sights for one in put.runs] == [Sights()] * len(put.runs)


class TestResultsSentBack:
    def test_a_result_is_fetched_and_sent(self):
        (one,) = found([], sent(800 * MB, 2, "main.py:3 in main", one=False))
        assert str(one) == (
            "2 times a result of the task made at main.py:3 in main was fetched and sent back as "
            "argument 'x' of f; 1.6 GB each way (main.py:5) - it was in the workers already - "
            "pass the lazy value itself, without compute(); or keep it there: "
            "x, = lazyflow.persist(x)"
        )

    def test_quiet(self):
        assert rules([], sent(1 * MB, 2, "main.py:3 in main")) == []
        assert rules([], sent(800 * MB, 2, "main.py:3 in main", user=False)) == []

    def test_in_a_program(self):
        with lazyflow.profile() as p:
            for start in range(5):
                x = delayed(np.full)(1_500_000, start).compute(scheduler="processes")
                delayed(at)(x, 0).compute(scheduler="processes")
        back = [each for one in p.runs for each in one.sights.large]
        assert [each.origin.rpartition(" in ")[2] for each in back] == [
            "TestResultsSentBack.test_in_a_program"
        ] * 5
        one = only(found(p.tasks, p.runs, 0.1), "results sent back")
        assert one.seen.startswith("5 times a result of the task made at ")

    def test_a_lazy_value_is_not_sent(self):
        with lazyflow.profile() as p:
            x = delayed(np.full)(1_500_000, 1)
            delayed(at)(x, 0).compute(scheduler="processes")
            (x,) = lazyflow.persist(x, scheduler="processes")
            delayed(at)(x, 0).compute()
        assert [one.sights.large for one in p.runs] == [()] * 3

    def test_threads_send_nothing(self):
        with lazyflow.profile() as p:
            x = delayed(np.full)(1_500_000, 1).compute(scheduler="threads")
            delayed(at)(x, 0).compute(scheduler="threads")
        assert [one.sights.large for one in p.runs] == [()] * 2


class TestCapturedData:
    def test_a_function_takes_it_along(self):
        (one,) = found([], holding(800 * MB))
        assert str(one) == (
            "f takes variable 'table', ndarray(9,) int64, along to the workers (main.py:5) - it is "
            "pickled with the function, and each worker has a copy of its own - make it an "
            "argument, x = lazyflow.put(x), and delayed(f)(..., x)"
        )
        (one,) = found([], holding(80 * MB, 10))
        assert ", 10 times, 800 MB in all" in one.seen

    def test_quiet(self):
        assert rules([], holding(2 * MB)) == []
        assert rules([], holding(800 * MB, user=False)) == []

    @pytest.mark.parametrize("kind", ["closure", "partial", "method", "object"])
    def test_in_a_program(self, kind):
        table = np.zeros(200_000)
        what = "ndarray(200000,) float64"
        functions = {
            "closure": (lambda i: float(table[i]), f"variable 'table', {what}"),
            "partial": (partial(at, table), f"argument 1 of a partial, {what}"),
            "method": (Model(table).at, f"attribute 'table' of Model, {what}"),
            "object": (Model(table), f"attribute 'table' of Model, {what}"),
        }
        function, text = functions[kind]
        with lazyflow.profile() as p:
            compute([delayed(function)(i) for i in range(3)], scheduler="processes")
            compute([delayed(function)(i) for i in range(3)], scheduler="threads")
        (held,), () = [one.sights.captured for one in p.runs]
        assert (held.what, held.nbytes) == (text, 1_600_000)
        assert held.place.endswith("<listcomp>") or held.place.endswith("test_in_a_program")

    def test_globals_of_functions_that_go_by_value(self):
        used, named = (lambda i: TABLE[i]), (lambda i: i.TABLE)
        with lazyflow.profile() as p:
            compute(delayed(used)(1), scheduler="processes")
            lazyflow.compute(delayed(named)(Model), scheduler="processes", on_error="collect")
        found = [[each.what for each in run.sights.captured] for run in p.runs]
        assert found == [["global variable 'TABLE', ndarray(1000000,) float64"], []]

    def test_functions_of_modules_and_small_data_are_quiet(self):
        small = np.zeros(10)
        with lazyflow.profile() as p:
            compute(delayed(uses_global)(1), delayed(lambda: small)(), scheduler="processes")
        assert p.runs[0].sights.captured == ()


class TestMemoryNearLimit:
    def test_the_largest_results_are_named(self):
        tasks = [
            task(0, 4, name="load", size=6_000 * MB), task(4, 5, name="load", size=6_000 * MB),
            task(5, 6, name="total", size=8), task(8, 9, name="late", size=90_000 * MB),
        ]
        uses = [use(1, 5_000 * MB), use(6, 14_000 * MB), use(9, 1_000 * MB)]
        (one,) = found(tasks, [run(0, 10)], usage=uses, limit=16_000 * MB)
        assert one.seen == (
            "memory reached 14 GB of the 16 GB that these processes can have; the results of 2 "
            "calls of load were 12 GB"
        )
        assert one.place == "main.py:5 in main" and "smaller parts" in one.do

    def test_what_ran_is_named_where_sizes_are_unknown(self):
        tasks = [task(0, 4, name="load"), task(1, 2, name="early")]
        (one,) = found(tasks, [run(0, 10)], usage=[use(3, 15_000 * MB)], limit=16_000 * MB)
        assert one.seen.endswith(" while load ran")

    def test_quiet(self):
        tasks, runs = [task(0, 4, size=MB)], [run(0, 10)]
        assert rules(tasks, runs, usage=[use(3, 8_000 * MB)], limit=16_000 * MB) == []
        assert rules(tasks, runs, usage=[use(3, 15_000 * MB)]) == []
        assert rules(tasks, runs, limit=16_000 * MB) == []
        assert rules([], runs, usage=[use(3, 15_000 * MB)], limit=16_000 * MB) == []


def at(x: Any, i: int) -> float:
    return float(x[i])


TABLE = np.zeros(1_000_000)


def uses_global(i: int) -> float:
    return float(TABLE[i])


class Model:
    def __init__(self, table: Any) -> None:
        self.table = table

    def at(self, i: int) -> float:
        return float(self.table[i])

    __call__ = at


class TestValuesSpilled:
    @pytest.mark.parametrize(("seconds", "is_told"), [(3.0, True), (0.01, False)])
    def test_where_it_took_time(self, seconds: float, is_told: bool) -> None:
        spilled = SpilledValues(40, 4_000 * MB, seconds, 8_000 * MB)
        runs = [run(0, 5), run(5, 10, place="main.py:9 in main")._replace(spilled=spilled)]
        advice = found([task(0, 5), task(5, 10, of=1)], runs)
        assert ("values spilled" in [each.rule for each in advice]) == is_told
        if is_told:
            told = only(advice, "values spilled")
            assert "40 values, 4 GB" in told.seen and "8 GB" in told.seen
            assert "memory_limit" in told.do and told.place == "main.py:9 in main"
