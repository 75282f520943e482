"""Schedulers for dask: what dask's own get from a graph, and dask's errors."""

import operator
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array")
from dask._task_spec import Alias, DataNode, Dict, List, Task, TaskRef, Tuple  # noqa: E402
from dask.diagnostics import Profiler  # noqa: E402

import lazyflow.interop.dask as ours  # noqa: E402

LOCAL = [ours.get, ours.get_sync, ours.get_processes]


def fused(key, a, b):
    """Return a task of a graph of four, in which one is used twice."""
    x, y, z = ((*key, part) for part in "xyz")
    return Task.fuse(
        Task(x, operator.eq, TaskRef(a), TaskRef(b)), Task(y, str, TaskRef(x)),
        Task(z, len, List(TaskRef(x), TaskRef(a))),
        Task(key, list, List(TaskRef(y), TaskRef(z), TaskRef(x))),
    )


@st.composite
def graphs(draw):
    """Return a graph of keys 0, 1, ... of all kinds of nodes, and a nesting of its keys."""
    made = {("k", 0): draw(st.integers())}
    for i in range(1, draw(st.integers(1, 12))):
        a, b = (("k", draw(st.integers(0, i - 1))) for _ in range(2))
        key = ("k", i)
        made[key] = draw(st.sampled_from([
            (operator.add, a, b), (sum, [a, b, 1]), a, i, [a, b],
            (len, [a, (min, [i, 3])]), Alias(key, a), DataNode(key, i),
            Task(key, operator.eq, TaskRef(a), TaskRef(b)), (lambda x: [x, x], a),
            Task(key, dict, [(1, 2)], x=TaskRef(a), y=List(TaskRef(b), Dict({"z": TaskRef(a)}))),
            fused(key, a, b), Tuple(TaskRef(a), Task(None, len, List(TaskRef(b)))),
        ]))
    keys = st.sampled_from(sorted(made))
    return made, draw(st.one_of(keys, st.lists(st.one_of(keys, st.lists(keys)), min_size=1)))


def outcome(get, graph, keys):
    try:
        return get(graph, keys)
    except Exception as error:
        return type(error)


@settings(max_examples=20, deadline=None)
@given(graph=graphs(), get=st.sampled_from([ours.get, ours.get_sync]))
def test_as_by_dask(graph, get):
    assert outcome(get, *graph) == outcome(dask.get, *graph)


@pytest.mark.parametrize("get", LOCAL)
def test_collections_and_callbacks(get):
    x = da.arange(60, chunks=7).reshape(6, 10)
    main = threading.main_thread
    seen = dask.delayed(lambda: (os.getpid(), threading.current_thread() is main()))
    with dask.config.set(scheduler=get):
        np.testing.assert_array_equal((x + 1).T.compute(), np.arange(1, 61).reshape(6, 10).T)
        with Profiler() as profiler:
            assert x.sum().compute() == 1770
        pid, is_main = seen().compute()
    assert len(profiler.results) > 8
    assert (pid == os.getpid()) == (get is not ours.get_processes)
    assert is_main == (get is not ours.get)


@pytest.mark.parametrize("get", LOCAL)
def test_errors(get):
    with pytest.raises(ZeroDivisionError):
        get({"a": (operator.truediv, 1, 0), "b": (abs, "a")}, "b")
    with pytest.raises(KeyError, match="z"):
        get({"a": 1}, "z")
    with pytest.raises(ValueError, match="Missing dependency b for dependents"):
        get({"a": Task("a", abs, TaskRef("b"))}, ["a"])
    with pytest.raises(RuntimeError, match="Cycle detected"):
        get({"a": (abs, "b"), "b": (abs, "a")}, "a")


def test_values_are_handed_on_as_they_are_on_threads():
    values = [np.zeros(3), [1], object()]
    graph = {"a": Task("a", lambda: values), "b": Task("b", lambda x: x, TaskRef("a"))}
    assert ours.get(graph, "b") is values and values[0].flags.writeable


def test_workers_pools_and_caches():
    graph = {("n", i): Task(("n", i), threading.get_ident) for i in range(20)}
    assert len(set(ours.get(graph, list(graph), num_workers=1))) == 1
    with ThreadPoolExecutor(1) as pool:
        own = pool.submit(threading.get_ident).result()
        assert set(ours.get(graph, list(graph), pool=pool)) == {own}
    assert ours.get({"b": Task("b", abs, TaskRef("a"))}, "b", cache={"a": -3}) == 3


def test_a_wrong_keyword_is_refused():
    with pytest.raises(TypeError, match="got the keyword 'num_wokers'; it takes num_workers,"):
        dask.delayed(abs)(-1).compute(scheduler=ours.get, num_wokers=2)
    assert dask.delayed(abs)(-1).compute(
        scheduler=ours.get, optimize_graph=False, num_workers=2) == 1
