"""Programs that are well made get no advice: the demo, its examples, estimators, arrays."""

import pytest

import lazyflow
import lazyflow.array as la
from lazyflow import compute, delayed
from lazyflow.demo import main

np = pytest.importorskip("numpy")
pytest.importorskip("sklearn")


def no_advice(program):
    """What a busy machine does to the times is not advised on in each of three turns."""
    for _ in range(3):
        with lazyflow.profile() as p:
            program()
        assert p.runs or p.tasks
        found = p.advice()
        if not found:
            return
    assert found == []


@pytest.mark.timeout(280)  # kernels may have to be compiled, on a busy machine for 100 s
@pytest.mark.parametrize("scheduler", ["threads", "processes"])
@pytest.mark.parametrize("example", [
    "parameter-averaging", "gradient-averaging", "batched-lbfgs", "block-cyclic-saga",
    "data-parallel", "evolution", "parameter-server",
])
def test_examples(example, scheduler, capsys):
    no_advice(lambda: main(["--example", example, "--scheduler", scheduler]))


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_the_demo(scheduler, capsys):
    no_advice(lambda: main(["--scheduler", scheduler]))


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_values_that_stay_in_the_workers(scheduler):
    def scaled(x, by):
        return x * by

    def program():
        x = lazyflow.put(np.random.default_rng(0).normal(size=2_000_000))
        for _ in range(5):
            parts = [delayed(scaled)(x, by) for by in range(4)]
            (parts,) = lazyflow.persist(parts)
            compute([delayed(np.sum)(part) for part in parts])

    with lazyflow.config.set(scheduler=scheduler):
        no_advice(program)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_arrays_in_their_own_chunks(scheduler):
    def program():
        x = la.random.default_rng(0).normal(size=(3_000, 1_000))
        centred = x - x.mean(axis=0)
        for _ in range(3):
            (centred @ centred.T[:, :50]).sum().compute(scheduler=scheduler)
        np.asarray(x[:10].map_blocks(np.sin, dtype=float).compute(scheduler=scheduler))

    no_advice(program)


def test_values_made_lazy_without_a_call():
    rows = np.arange(1000.0).reshape(100, 10)

    def program():
        parts = [delayed(part) for part in np.array_split(rows, 10)]
        assert delayed(sum)([delayed(np.sum)(part) for part in parts]).compute() == rows.sum()

    no_advice(program)
