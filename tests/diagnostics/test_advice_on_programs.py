"""Programs that are well made get no advice: the demo, its examples, estimators, arrays."""

import pytest

import lazyflow
import lazyflow.array as la
from lazyflow import compute, delayed
from lazyflow.demo import main

np = pytest.importorskip("numpy")
pytest.importorskip("sklearn")


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
@pytest.mark.parametrize(
    "example", ["parameter-averaging", "gradient-averaging", "batched-lbfgs", "block-cyclic-saga"]
)
def test_examples(example, scheduler, capsys):
    with lazyflow.profile() as p:
        main(["--example", example, "--scheduler", scheduler])
    assert p.runs and p.advice() == []


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_the_demo(scheduler, capsys):
    with lazyflow.profile() as p:
        main(["--scheduler", scheduler])
    assert p.runs and p.advice() == []


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_values_that_stay_in_the_workers(scheduler):
    def scaled(x, by):
        return x * by

    with lazyflow.config.set(scheduler=scheduler), lazyflow.profile() as p:
        x = lazyflow.put(np.random.default_rng(0).normal(size=2_000_000))
        for _ in range(5):
            parts = [delayed(scaled)(x, by) for by in range(4)]
            (parts,) = lazyflow.persist(parts)
            compute([delayed(np.sum)(part) for part in parts])
    assert p.advice() == []


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_arrays_in_their_own_chunks(scheduler):
    with lazyflow.profile() as p:
        x = la.random.default_rng(0).normal(size=(3_000, 1_000))
        centred = x - x.mean(axis=0)
        for _ in range(3):
            (centred @ centred.T[:, :50]).sum().compute(scheduler=scheduler)
        np.asarray(x[:10].map_blocks(np.sin, dtype=float).compute(scheduler=scheduler))
    assert p.advice() == []


def test_values_made_lazy_without_a_call():
    rows = np.arange(1000.0).reshape(100, 10)
    with lazyflow.profile() as p:
        parts = [delayed(part) for part in np.array_split(rows, 10)]
        assert delayed(sum)([delayed(np.sum)(part) for part in parts]).compute() == rows.sum()
    assert p.advice() == []
