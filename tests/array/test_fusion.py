"""Whole expressions are one task for each chunk, and read only what is needed."""

import math
import signal
import threading
import warnings

import numpy as np
import pytest
from array_checks import kept_inputs, same_values
from array_examples import Store

import lazyflow
import lazyflow.array as la
from lazyflow import config
from lazyflow.api.evaluate import always_observers
from lazyflow.array.nodes.elementwise import Fused
from lazyflow.array.nodes.expr import below
from lazyflow.array.nodes.rechunking import Rechunk
from lazyflow.array.passes.rewrites import optimize
from lazyflow.graph.plan import make_plan
from lazyflow.schedulers.core.base import Observer


def tasks_of(x, **options):
    """How many tasks a compute of x has."""
    nodes = optimize([x.expr], keep=False, **options)
    return sum(math.prod(node.numblocks) for node in below(nodes) if isinstance(node, Fused))


def test_an_expression_is_one_task_per_chunk():
    x = la.from_array(np.ones(4_000_000), chunks=1_000_000)
    y = ((x - 0.5) * x + x * 2 - x / 3).sum()
    assert tasks_of(y) == 4
    assert tasks_of(y, fusion=False) > 20


def test_small_chunks_are_put_together():
    x = la.from_array(np.ones((200, 200)), chunks=20)
    assert tasks_of((x + 1 + x.T).sum(0)) == 1


def test_a_whole_result_is_made_of_rows_that_lie_together_in_it():
    a, squares = np.arange(4_000_000.0).reshape(2000, 2000), 500
    x = la.from_array(a, chunks=squares)
    for made in (x + 1, x * 2 - x[0], x[:, 3:] - x[:1, 3:].sum(0), la.ones_like(x) + x):
        (node,) = optimize([made.expr], keep=False)
        assert len(node.chunks[1]) == 1 and len(node.chunks[0]) >= 7, made
        (kept,) = optimize([made.expr], keep=True)
        assert kept.chunks == made.chunks
    np.testing.assert_array_equal((x * 2 - x[0]).compute(), a * 2 - a[0], strict=True)
    columns = la.from_array(np.asfortranarray(a), chunks=squares)
    for made in (columns + 1, x.T + 1, x + x.T):  # of which rows would be read across
        (node,) = optimize([made.expr], keep=False)
        assert len(node.chunks[1]) > 1, made
    (node,) = optimize([(la.zeros((0, 3000), chunks=(1, 1000)) + 1).expr], keep=False)
    assert len(node.chunks[1]) == 3


@pytest.mark.parametrize("axis", [0, 1])
def test_what_is_joined_is_cut_where_the_chunks_end(axis):
    a = np.arange(30_000.0).reshape(300, 100)
    x = la.from_array(a, chunks=(90, 30))
    made = x - la.roll(x, 7, axis=axis)
    rechunks = [node for node in below(optimize([made.expr])) if isinstance(node, Rechunk)]
    assert rechunks
    for node in rechunks:  # all blocks but those at a joint are blocks of what is below
        for k in range(2):
            ends = [set(np.cumsum(each.chunks[k])) for each in (node, *node.inputs)]
            assert ends[0] <= ends[1] and len(ends[1] - ends[0]) <= 1
    np.testing.assert_array_equal(made.compute(), a - np.roll(a, 7, axis=axis), strict=True)


SHIFTED = {
    "rows": lambda x: x[1:] - x[:-1],
    "three": lambda x: x[4:, 3:] + x[2:-2, 3:] * 2 - x[:-4, 3:],
    "turned": lambda x: x.T[:, 1:] - x.T[:, :-1],
    "stretched": lambda x: x[1:, None] - x[:-1, None] + np.ones((2, 1), np.uint8),
    "one row": lambda x: x - x[4000],
}


@pytest.mark.parametrize("case", SHIFTED)
def test_of_a_large_block_beside_another_only_the_part_is_read(case):
    """On a cluster a task has its inputs on one worker: blocks would move for a row of each."""
    a = np.random.default_rng(0).integers(0, 99, (12_288, 1024), np.uint8)
    made = SHIFTED[case]((la.from_array(a, chunks=(4096, 1024)) + np.uint8(0)).persist())
    assert kept_inputs(made) == {1}
    np.testing.assert_array_equal(made.compute(), SHIFTED[case](a), strict=True)


def test_parts_of_kept_blocks_are_not_copied_to_be_read():
    a = np.arange(3000.0).reshape(60, 50)
    x = (la.from_array(a, chunks=(20, 25)) + 0).persist()
    for made, wanted in (
        (x[1:, 1:] - x[:-1, :-1], a[1:, 1:] - a[:-1, :-1]),
        (x[::-1] * la.from_array(a, chunks=(7, 50)), a[::-1] * a),
        (x[::2, ::-3] + x[1::2, ::-3], a[::2, ::-3] + a[1::2, ::-3]),
    ):
        nodes = below(optimize([made.expr], keep=False))
        assert not any(isinstance(node, Rechunk) for node in nodes)
        np.testing.assert_array_equal(made.compute(), wanted, strict=True)
        np.testing.assert_array_equal(made.persist().compute(), wanted, strict=True)


def test_kept_blocks_of_which_most_is_needed_are_copied_once():
    a = np.arange(3000.0).reshape(60, 50)
    x = (la.from_array(a, chunks=(20, 25)) + 0).persist()
    for make in (lambda m, x: m.roll(x, 3, axis=0), lambda m, x: m.diff(x, axis=1)):
        made = make(la, x)
        rechunks = [node for node in below(optimize([made.expr])) if isinstance(node, Rechunk)]
        assert rechunks
        for node in rechunks:  # no block of what is below is cut
            for own, sizes in zip(node.chunks, node.inputs[0].chunks, strict=True):
                assert set(np.cumsum(own)) <= set(np.cumsum(sizes))
        np.testing.assert_array_equal(made.compute(), make(np, a), strict=True)


def test_reductions_of_one_array_read_it_once():
    x = la.from_array(np.ones((400_000, 5)), chunks=(100_000, 5))
    nodes = optimize([(x * 2).sum(0).expr, (x * 2).std(0).expr, (x + 1).max(0).expr], keep=False)
    fused = [node for node in below(nodes) if isinstance(node, Fused) and len(node.inputs) == 1]
    assert [len(node.program.outputs) for node in fused if node.program.outputs[0][1]] == [3]


def test_what_is_wanted_in_chunks_keeps_them():
    x = la.from_array(np.arange(40), chunks=4)
    assert (x + 1).persist().chunks == x.chunks
    assert len((x + 1).__lazyflow_tasks__()) == 10


def test_only_the_chunks_that_are_needed_are_read(here):
    store = Store(np.ones((100, 100)))
    x = la.from_array(store, chunks=10)
    assert (x * 2 + 1)[5:7, 33].sum().compute() == 6.0
    assert store.read == [(slice(5, 7), slice(33, 34))]


@pytest.mark.parametrize("call", [
    lambda xp, x: xp.median(x, axis=1), lambda xp, x: xp.sort(x, axis=1),
    lambda xp, x: xp.argmax(x, axis=1), lambda xp, x: np.subtract.reduce(x, axis=1),
    lambda xp, x: np.maximum.reduce(x, axis=1), lambda xp, x: xp.cumsum(x, axis=1),
], ids=["median", "sort", "argmax", "subtract.reduce", "maximum.reduce", "cumsum"])  # fmt: skip
def test_a_part_of_what_needs_whole_axes_is_made_of_whole_axes(call):
    """Where an array in memory is turned, so that its chunks are those that the operation asked."""
    for shape, chunks in (((2, 4, 3), (1, 4, 2)), ((1, 4, 3), ((0, 1), 4, 2))):
        a = np.arange(np.prod(shape)).reshape(shape)
        x = la.from_array(a, chunks=chunks)
        found = call(la, x.transpose(1, 0, 2))[0].compute()
        np.testing.assert_array_equal(found, call(np, a.transpose(1, 0, 2))[0], strict=True)


def test_a_chain_of_thousands_of_operations_works():
    x = la.ones(10, chunks=5)
    for _ in range(5000):
        x = x + 1
    np.testing.assert_array_equal(x[2:4].compute(), [5001.0, 5001.0])


def test_building_costs_nothing_for_each_chunk():
    x = la.ones((10**6, 10**6), chunks=1000)  # a million chunks
    assert (x + 1).sum().npartitions == 1
    assert (x + 1)[5, 7].compute() == 2.0


def test_many_short_tasks_run_on_one_thread():
    kept = la.from_array(np.ones((40, 40)), chunks=2).persist()
    threads = set()

    def seen(block):
        threads.add(threading.get_ident())
        return block

    def light(x):
        (made,) = la.Array.__lazyflow_optimize__([x], keep=False)
        return made.__lazyflow_light__

    assert light((kept * 2 + 1).sum(0))
    assert not light(np.exp(kept).sum())  # as long as it may be
    assert not light(kept.map_blocks(seen, dtype=float))
    assert not light(la.from_array(np.ones(10**6), chunks=10**5).persist() + 1)
    row = la.from_array(np.ones(2000))
    assert light(row + 1)
    assert not light(row[:, None] + row)
    assert not light(la.from_array(np.ones(30_000)) + 1)  # as long as to write 240 kB
    assert light(la.from_array(np.ones(30_000)).max())
    large = la.from_array(np.ones(30_000))
    for copied in (la.ones(30_000), large[::-1], large.persist()):
        assert not light(copied)  # nothing is computed, and 240 kB are written
    assert light(la.ones(3_000))
    assert not light(row.astype(object) + 1)  # as long as their additions take
    np.testing.assert_array_equal((kept * 2 + 1).sum(0).compute(), np.full(40, 120.0))


class AtEachTask(Observer):
    """Calls a function in the thread of each task."""

    def __init__(self, function):
        self.function = function

    def task_started(self, run, i):
        self.function()


@pytest.fixture
def at_each_task():
    before = len(always_observers)
    yield lambda function: always_observers.append(AtEachTask(function))
    del always_observers[before:]


def test_light_work_is_done_in_the_callers_thread(at_each_task):
    threads = []
    at_each_task(lambda: threads.append(threading.current_thread()))
    x = la.from_array(np.arange(20.0).reshape(5, 4), chunks=2)
    with config.set(scheduler="threads"):
        assert (x + 1).sum().compute() == 210.0
        assert set(threads) == {threading.current_thread()}
        threads.clear()
        assert (x + 1).sum().compute(num_workers=2) == 210.0
        assert threading.current_thread() not in threads
        threads.clear()
        assert np.exp(x).max().compute() == np.exp(19.0)
        assert threading.current_thread() not in threads


def test_light_work_can_be_interrupted(at_each_task):
    x = la.from_array(np.arange(20.0), chunks=2)
    at_each_task(lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        x.sum().compute()


def test_light_work_has_an_end_by_timeout():
    with config.set(scheduler="threads"), pytest.raises(lazyflow.TaskTimeout):
        la.from_array(np.arange(20.0), chunks=2).sum().compute(timeout=0)


def in_a_plan(x):
    """How many tasks a compute of x runs."""
    (made,) = la.Array.__lazyflow_optimize__([x], keep=False)
    return len(make_plan(made.__lazyflow_tasks__()))


@pytest.mark.parametrize("reduce", [la.sum, la.mean, la.std, la.max, la.all])
def test_a_reduction_inside_of_blocks_is_one_task_for_each(reduce):
    values = np.random.default_rng(0).standard_normal((2000, 2000))
    x = la.from_array(values, chunks=(500, 2000)).persist()
    assert in_a_plan(reduce(x, axis=1)) == 4 + 4
    assert in_a_plan(reduce(la.from_array(values[:5], chunks=-1))) == 1
    expected = getattr(np, reduce.__name__)(values, axis=1)
    np.testing.assert_allclose(reduce(x, axis=1).compute(), expected, rtol=1e-9)
    np.testing.assert_allclose(reduce(x, axis=1)[:, None].compute(), expected[:, None], rtol=1e-9)
    np.testing.assert_allclose(
        reduce(x.T, axis=0, keepdims=True)[0, 3:].compute(), expected[3:], rtol=1e-9
    )


def test_many_small_chunks_make_few_tasks():
    x = la.from_array(np.arange(4_000_000.0).reshape(2000, 2000), chunks=(5, 2000))
    assert in_a_plan(x.max(axis=1)) == 8
    assert in_a_plan(x - x.max(axis=1, keepdims=True)) == 16
    np.testing.assert_array_equal(
        (x - x.max(axis=1, keepdims=True)).compute(),
        np.tile(np.arange(-1999.0, 1.0), (2000, 1)),
    )


@pytest.mark.parametrize("count", [2, 9, 16])
@pytest.mark.parametrize("kind", ["sum", "prod", "min", "max", "mean"])
def test_blocks_of_stacked_arrays_are_merged_as_they_are(kind, count):
    data = np.random.default_rng(count).normal(size=(count, 70_001))
    data[:, :3] = -0.0
    data[0, 3] = np.nan
    x = la.stack([la.from_array(row, chunks=70_001) for row in data])
    found = getattr(x, kind)(0)
    assert tasks_of(found) == 0
    same_values(found.compute(), getattr(data, kind)(0))


@pytest.mark.parametrize("of", ["f8", "f4", "i8", "f2", "c16", "m8[s]"])
@pytest.mark.parametrize("axis", [0, 1])
def test_large_parts_are_merged_one_by_one_and_into_the_result(of, axis):
    rng = np.random.default_rng(0)
    data = [(rng.integers(-9, 9, 140_002) * 1.1).astype(of) for _ in range(3)]
    whole = np.stack(data, axis)
    x = la.stack([la.from_array(row, chunks=70_001) for row in data], axis)
    for kind in ("sum", "max") if of == "m8[s]" else ("sum", "prod", "max", "min"):
        expected = data[0] + np.zeros((), of) if kind == "sum" else data[0]
        for row in data[1:]:
            expected = getattr(np, {"sum": "add", "prod": "multiply", "max": "maximum",
                                    "min": "minimum"}[kind])(expected, row)
        for keepdims in (False, True):
            wanted = expected if not keepdims else np.expand_dims(expected, axis)
            for kernels in ("numpy", "native" if of in ("f8", "f4", "i8") else "auto"):
                with lazyflow.config.set(kernels=kernels):
                    found = getattr(x, kind)(axis=axis, keepdims=keepdims)
                    same_values(found.compute(), wanted)
                    assert found.dtype == getattr(whole, kind)(axis=axis).dtype


def test_large_parts_report_as_a_reduction_once(noticed):
    x = la.stack([la.from_array(np.full(140_002, 1e308), chunks=70_001) for _ in range(2)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert np.isinf(x.sum(0).compute()).all()
    assert {str(each.message) for each in caught} == {"overflow encountered in reduce"}


def test_weights_of_places_are_summed_once():
    x = la.from_array(np.ones((4000, 500)), chunks=(1000, 500))
    found, scale = la.average(x, axis=1, weights=np.arange(500.0), returned=True)
    assert "sum: blocks of 1 x 500," in la.report(found)
    same_values(scale.compute(), np.full(4000, 500 * 499 / 2))
