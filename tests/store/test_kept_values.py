"""Frames, sparse matrices and containers of arrays beyond `memory_limit` are what they were."""

import gc
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import lazyflow as lf
from lazyflow.finalizers import wait_for_last_calls

COUNT = 1 << 14  # numbers in a column of these tests
BYTES = 8 * COUNT


@dataclass
class Pair:
    left: Any
    right: Any


class Row(NamedTuple):
    left: Any
    right: Any


class Named(np.ndarray):
    """An array with a name."""

    def __array_finalize__(self, of):
        self.name = getattr(of, "name", None)


def numbers():
    return np.arange(COUNT * 1.0)


def frame():
    texts = [f"text {k % 7}" for k in range(COUNT)]
    index = pd.date_range("2020", periods=COUNT, freq="s")
    return pd.DataFrame({"a": numbers(), "b": texts}, index=index).assign(
        c=pd.Categorical(texts), d=[(k,) for k in range(COUNT)])


def named():
    made = numbers().view(Named)
    made.name = "n"
    return made


def arrow():
    return pytest.importorskip("pyarrow").table({"a": numbers(), "b": ["text"] * COUNT})


def polar():
    return pytest.importorskip("polars").DataFrame({"a": numbers(), "b": ["text"] * COUNT})


MAKERS = {
    "frame": frame,
    "series": lambda: frame()["a"],
    "masked": lambda: np.ma.masked_less(numbers(), 7),
    "subclass": named,
    "sparse": lambda: sp.csr_array(sp.diags_array([numbers() + 1, numbers()[1:]], offsets=[0, 1])),
    "tuple": lambda: (numbers(), "text", numbers()[::2]),
    "dict": lambda: OrderedDict(a=numbers(), b=[numbers().reshape(4, -1).T, {"c": None}]),
    "dataclass": lambda: Pair(numbers(), Row(frame(), np.arange(COUNT).astype("M8[s]"))),
    "arrow": arrow,
    "polars": polar,
}


@pytest.fixture(autouse=True)
def _none_kept():
    yield
    gc.collect()
    wait_for_last_calls()
    memory = lf.info()["memory"]
    assert (memory["held_bytes"], memory["spilled_bytes"]) == (0, 0)


def leaves(value):
    """Return the parts of a value, as what can be compared."""
    if isinstance(value, Pair):
        return ["Pair", *leaves(value.left), *leaves(value.right)]
    if isinstance(value, dict):
        return [type(value), *value, *leaves(list(value.values()))]
    if isinstance(value, list | tuple):
        return [type(value), *(leaf for each in value for leaf in leaves(each))]
    if isinstance(value, np.ma.MaskedArray):
        return [type(value), *leaves(value.filled(-1)), *leaves(value.mask)]
    if isinstance(value, np.ndarray):
        return [type(value), value.dtype, getattr(value, "name", None), value.tolist()]
    if sp.issparse(value):
        return [type(value), value.shape, *leaves([value.data, value.indices, value.indptr])]
    if isinstance(value, pd.DataFrame | pd.Series):
        columns = value.items() if isinstance(value, pd.DataFrame) else [(value.name, value)]
        return [type(value), *((name, list(each.array)) for name, each in columns),
                value.index.asi8.tolist()]
    return [value.to_pydict() if hasattr(value, "to_pydict") else (
        value.to_dict(as_series=False) if hasattr(value, "to_dict") else value)]


def edit(value):
    """Change what can be changed of a value in place, and return its parts before."""
    before = leaves(value)
    if isinstance(value, pd.DataFrame):
        value.iloc[0, 0], value.iloc[1, 3] = -5.0, None
        value["new"] = 1
    elif sp.issparse(value):
        value.data[:] = 7
        value.indices[:] = 0
    elif isinstance(value, dict):
        value.clear()
    return before


@pytest.mark.parametrize("name", MAKERS)
def test_spilled_values_are_what_they_were_for_tasks_and_callers(name):
    make = MAKERS[name]
    expected = leaves(make())
    kept = lf.persist(*[lf.delayed(make)() for _ in range(3)], memory_limit=1, scheduler="sync")
    memory = lf.info()["memory"]
    assert memory["spilled_bytes"] >= BYTES  # all but the last, which was in use as it was kept
    assert memory["held_bytes"] <= memory["spilled_bytes"]
    for x in kept[::2]:  # one in the file, one in memory
        for _ in range(2):
            assert lf.delayed(edit)(x).compute(scheduler="sync") == expected
            assert edit(x.compute(scheduler="sync")) == expected
    del kept, x


def test_workers_spill_such_values():
    kept = lf.persist(
        *[lf.delayed(lambda: {"a": np.arange(COUNT * 1.0)})() for _ in range(6)],
        scheduler="processes", num_workers=2, memory_limit=BYTES,
    )

    def spilled(_):
        return os.getpid(), lf.info()["memory"]["spilled_bytes"]

    found = dict(lf.compute(*[lf.delayed(spilled)(x) for x in kept], scheduler="processes"))
    assert os.getpid() not in found and sum(found.values()) >= 3 * BYTES
    sums = lf.delayed(lambda *given: [float(each["a"].sum()) for each in given])(*kept)
    assert sums.compute(scheduler="processes") == [numbers().sum()] * 6
    del kept, sums


def test_shared_memory_counts_once_and_other_objects_stay_what_they_are():
    lock, model, text = threading.Lock(), SimpleNamespace(weight=3), "x" * BYTES
    x = numbers()
    value = {"m": model, "l": lock, "x": [x, x, x[::3]], "f": lambda: lock, "t": text}
    first, second = lf.persist(
        lf.delayed(lambda: value, pure=False)(), lf.delayed(lambda: (x, text))(),
        memory_limit="1 GB", scheduler="sync",
    )
    assert lf.info()["memory"]["held_bytes"] == BYTES

    def look(a, b):
        parts = a["x"]
        return (a["m"] is model, a["l"] is lock, a["f"]() is lock, a["t"] is text, b[1] is text,
                parts[0] is parts[1], np.shares_memory(parts[0], b[0]), parts[2].strides)

    found = lf.delayed(look)(first, second).compute(scheduler="sync")
    assert found == (True,) * 7 + ((24,),)
    del first, second


def test_what_has_little_memory_stays_as_it_is():
    values = [[1, 2, 3], {"a": np.ones(5)}, ["text" * 10] * 10_000, [np.ones(100)] * 10_000]
    kept = lf.persist(*[lf.delayed(lambda v: v)(v) for v in values], memory_limit=1)
    lf.wait(kept)
    assert lf.info()["memory"]["held_bytes"] == 0
    assert lf.compute(*kept)[0] == [1, 2, 3]
    del kept
