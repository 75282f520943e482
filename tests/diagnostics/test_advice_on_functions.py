"""Advice on functions, chunks and threads."""

import pytest
from advice_records import found, rules, run, task, use

import lazyflow
import lazyflow.array as la
from lazyflow import compute, delayed
from lazyflow.diagnostics.profiling.graph_facts import (
    ArrayChunks,
    EagerCall,
    MadeValues,
    Refusal,
    Sights,
)

np = pytest.importorskip("numpy")


class TestCallsBeforeDelayed:
    def runs(self, values=10, **more):
        made = MadeValues("main.py:5", EagerCall("load", "path"), values)
        return [run(8, 10, tasks=99, sights=Sights(made=(made,)), **more)]

    def test_the_caller_has_called_it(self):
        (one,) = found([], self.runs())
        assert str(one) == (
            "delayed(load(path)) was made 10 times, and for 8 s of 10 s before it was computed no "
            "task ran (main.py:5) - load is called at once, by the caller: only its result is lazy "
            "- write delayed(load)(path)"
        )

    def test_quiet(self):
        assert rules([], self.runs(2)) == []
        assert rules([], [run(0, 8), *self.runs()]) == []  # it took no time
        assert rules([], self.runs(user=False)) == []

    def test_in_a_program(self):
        with lazyflow.profile() as p:
            early = [delayed(abs(-i)) for i in range(4)]
            early += [lazyflow.delayed(max(i, key=abs, default=2), pure=True) for i in [[1], [2]]]
            right = [delayed(abs)(-i) for i in range(4)]
            values = [delayed(value) for value in range(4)]
            twice = [delayed(delayed(abs)(-1)) for _ in range(4)]
            compute([early, right, values, twice])
        made = p.runs[0].sights.made
        assert [(each.call, each.values) for each in made] == [
            (EagerCall("abs", "-i"), 4), (EagerCall("max", "i, key=abs, default=..."), 2),
        ]
        assert "in TestCallsBeforeDelayed.test_in_a_program" in made[0].place

    def test_a_value_is_counted_once(self):
        one = delayed(max(1, 2))
        with lazyflow.profile() as p:
            for k in range(4):
                (one + k).compute()
        assert [sum(each.values for each in run.sights.made) for run in p.runs] == [1, 0, 0, 0]


class TestCompiledAgain:
    def tasks(self, count, workers=2, compiled=0.5):
        return [
            task(k, k + 0.6, f"w-{k % workers}", compiled=compiled) for k in range(count)
        ]

    def test_each_call_compiles(self):
        (one,) = found(self.tasks(8), [run(0, 10, tasks=99)])
        assert one.seen == "Numba compiled in 8 calls of f on 2 workers, for 4 s in all"
        assert "@numba.njit above a function of the module" in one.do

    def test_quiet(self):
        runs = [run(0, 10, tasks=99)]
        assert rules(self.tasks(8, workers=8), runs) == []  # once in each worker
        assert rules(self.tasks(8, compiled=0.01), runs) == []
        assert rules(self.tasks(8, compiled=0.0), runs) == []
        assert rules(self.tasks(8), [run(0, 10, tasks=99, user=False)]) == []

    def test_in_a_program(self):
        numba = pytest.importorskip("numba")

        def compiling(x):
            return numba.njit(lambda x: x + 1)(x)

        one = numba.njit(lambda x: x + 1)
        with lazyflow.profile() as p:
            assert compute([delayed(compiling)(k) for k in range(6)])[0] == list(range(1, 7))
            compute([delayed(one)(k) for k in range(6)])
        compiled = [each.name for each in p.tasks if each.compiled]
        assert compiled.count("compiling") == 6 and len(compiled) <= 7
        slower = [each._replace(compiled=10 * each.compiled) for each in p.tasks]
        (one,) = [each for each in found(slower, p.runs, 0.1) if "compiled" in each.rule]
        assert one.seen.startswith("Numba compiled in 6 calls of compiling on ")


class TestRefusedChanges:
    def test_tasks_that_could_not_edit(self):
        refused = (Refusal("scale", "main.py:5", "output array is read-only"),) * 2
        (one,) = found([], [run(0, 1, sights=Sights(refused=refused))])
        assert str(one) == (
            "2 calls of scale failed: output array is read-only (main.py:5) - other tasks may "
            "share the value, so that it can't be edited - edit a copy, x = x.copy(), or get a "
            "private value: delayed(scale, mutates=True)"
        )

    @pytest.mark.parametrize("scheduler", ["threads", "processes"])
    def test_in_a_program(self, scheduler):
        def scale(x):
            x *= 2

        with lazyflow.profile() as p:
            x = delayed(np.ones)(3)
            compute([delayed(scale)(x) for _ in range(2)], on_error="collect", scheduler=scheduler)
        (one,) = p.advice()
        assert one.rule == "inputs changed in place"
        assert one.seen == "2 calls of scale failed: output array is read-only"

    def test_what_check_mutation_finds(self):
        with lazyflow.config.set(check_mutation=True), lazyflow.profile() as p:
            x = delayed(Box)()
            compute(delayed(fill)(x), x, on_error="collect", scheduler="threads")
        (one,) = p.advice()
        assert one.seen.startswith("a call of fill failed: fill changed its input 0 in place")

    def test_other_failures_and_private_values_are_quiet(self):
        with lazyflow.profile() as p:
            compute(delayed(int)("x"), on_error="collect")
            compute(delayed(fill, mutates=True)(delayed(Box)()))
        assert p.advice() == []


class Box:
    value = 0


def fill(box):
    box.value = 1


def blocks(count, nbytes, **more):
    chunks = ArrayChunks("main.py:5 in main", "sin", count, nbytes)
    return [run(0, 10, tasks=count, sights=Sights(arrays=(chunks,)), **more)]


class TestChunksTooSmall:
    def tasks(self, count, seconds=1e-5):
        return [task(k * 1e-5, k * 1e-5 + seconds) for k in range(count)]

    def test_blocks_of_microseconds(self):
        (one,) = found(self.tasks(20_000), blocks(20_000, 800), 1.0)
        assert one.rule == "chunks too small"
        assert one.seen == (
            "20,000 tasks for blocks of 800 bytes, as of sin, took 10 µs each; on threads a block "
            "costs about 33 µs beyond its work"
        )
        assert one.do == (
            'make the array in larger chunks: chunks="auto" takes about 8.39 MB; or '
            'x = x.rechunk("auto")'
        )

    def test_quiet(self):
        assert rules(self.tasks(20_000, 1e-3), blocks(20_000, 800), 1.0) == []
        assert rules(self.tasks(200), blocks(200, 800), 1.0) == []
        assert rules(self.tasks(20_000), blocks(20_000, 8_000_000), 1.0) == []
        assert rules(self.tasks(20_000), blocks(20_000, 800, user=False), 1.0) == []

    def test_making_their_tasks_is_no_work_of_the_callers(self):
        runs = [run(k, k + 0.1, tasks=900, sights=blocks(900, 800)[0].sights) for k in range(9)]
        assert rules([], runs) == []
        runs = [run(k, k + 0.1, tasks=900, sights=blocks(90, 800)[0].sights) for k in range(9)]
        assert rules([], runs) == ["gaps between computes"]

    def test_chunks_are_known_by_their_lines(self):
        x = la.arange(100, chunks=10)
        with lazyflow.profile() as p:
            x.map_blocks(np.sin).compute()
        (chunks,) = [each for each in p.runs[0].sights.arrays if each.name == "sin"]
        assert (chunks.blocks, chunks.nbytes) == (10, 80)
        assert chunks.place in {each.place for each in p.tasks if each.name == "sin"}


class TestChunksTooLarge:
    def test_a_block_for_many_cores(self):
        (one,) = found([task(0, 5)], blocks(1, 800_000_000), cores=4)
        assert one.rule == "chunks too large"
        assert one.seen == "1 block of 800 MB of sin took 5 s; 1 of 4 cores worked on them"
        assert "in smaller chunks" in one.do

    def test_quiet(self):
        assert rules([task(0, 5)], blocks(1, 8_000_000), cores=4) == []
        assert rules([task(0, 5)], blocks(4, 800_000_000), cores=4) == []
        assert rules([task(0, 0.05)], blocks(1, 800_000_000), cores=4) == []
        assert rules([task(0, 5)], blocks(1, 800_000_000), cores=1) == []
        others = [task(0, 5, f"w-{k}", name="g")._replace(place="main.py:9") for k in range(3)]
        assert rules([task(0, 5), *others], blocks(1, 800_000_000), cores=4) == []


class TestMoreThreadsThanCores:
    def test_threads_of_blas(self):
        tasks = [task(0, 5, "w-1", name="solve", cpu=2.0), task(0, 5, "w-2", cpu=3.0)]
        uses = [use(k + 1, cpu=1.9) for k in range(5)]
        (one,) = found(tasks, [run(0, 5, tasks=2)], 5.0, 0.0, usage=uses)
        assert one.seen == (
            "2 tasks ran at once, as solve, and used 1 cores themselves; threads that they started "
            "used 0.9 of 2 more"
        )
        assert "OPENBLAS_NUM_THREADS=1" in one.do

    def test_quiet(self):
        tasks = [task(0, 5, "w-1", cpu=4.8), task(0, 5, "w-2", cpu=4.8)]
        busy, idle = ([use(k + 1, cpu=cpu) for k in range(5)] for cpu in (1.9, 1.0))
        held = [each._replace(cpu=2.5) for each in tasks]
        runs = [run(0, 5, tasks=2)]
        assert rules(tasks, runs, 5.0, 0.0, usage=busy) == []  # the tasks themselves
        assert rules(held, runs, 5.0, 0.0, usage=idle) == []  # nobody else
        assert rules(held, runs, 5.0, 0.0) == []
        assert rules(held[:1], runs, 5.0, 0.0, usage=busy) == []  # one task may have all cores
        assert rules(held, [run(0, 5, tasks=2, user=False)], 5.0, 0.0, usage=busy) == []
