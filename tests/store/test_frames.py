"""Frames and tables on their way to other processes: which bytes are copied, which are mapped."""

import numpy as np
import pytest
from store_tools import LEAST, Store

from lazyflow import compute, delayed, put
from lazyflow.store.sizes import size_of

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

N = 100_000
NUMBERS = {"i": np.arange(N), "f": np.arange(N) / 3, "t": np.arange(N).astype("M8[us]")}
TEXT = [f"a name of some length {i % 977}" for i in range(N)]


def categories():
    return pd.Categorical(TEXT)


def polars_frame():
    return pl.DataFrame({**NUMBERS, "s": TEXT, "b": [True, False] * (N // 2), "l": [[1]] * N})


#: For each case what makes it, and the bytes of it that lie in large buffers.
CASES = {
    "pandas numbers": (lambda: pd.DataFrame(NUMBERS), 24 * N),
    "pandas nullable": (lambda: pd.DataFrame({"a": pd.array([1] * N, "Int64")}), 9 * N),
    "pandas categories": (lambda: pd.DataFrame({"c": categories()}), 2 * N),
    "pandas dates": (lambda: pd.date_range("2020", periods=N, tz="UTC", freq="s"), 8 * N),
    "pandas series": (lambda: pd.Series(NUMBERS["f"]), 8 * N),
    "pandas on arrow": (lambda: pd.DataFrame({"a": pd.array([1] * N, "int64[pyarrow]")}), 8 * N),
    "pandas texts on arrow": (lambda: pd.Series(TEXT, dtype="string[pyarrow]"), 25 * N),
    "arrow table": (lambda: pa.table({**NUMBERS, "s": TEXT}), 24 * N + 25 * N),
    "arrow batch": (lambda: pa.record_batch({"a": NUMBERS["i"]}), 8 * N),
    "arrow array": (lambda: pa.array(NUMBERS["i"]), 8 * N),
    "arrow dictionary": (lambda: pa.array(TEXT).dictionary_encode(), 4 * N),
    "polars frame": (polars_frame, 81 * N),
    "polars series": (lambda: pl.Series("a", NUMBERS["i"]), 8 * N),
}


def arrow_buffers(value):
    """Return address and bytes of the buffers of a table or array of Arrow."""
    columns = value.columns if hasattr(value, "columns") else [value]
    chunks = [c for column in columns for c in getattr(column, "chunks", [column])]
    found = []
    for chunk in chunks:
        parts = [chunk.indices] if hasattr(chunk, "indices") else [chunk]
        found += [(b.address, b.size) for part in parts for b in part.buffers() if b is not None]
    return found


def buffers(value):
    """Return address and bytes of the memory that a frame or table lies in."""
    if type(value).__module__.startswith("polars"):
        newest = pl.CompatLevel.newest()
        table = value.to_frame() if isinstance(value, pl.Series) else value
        return arrow_buffers(table.to_arrow(compat_level=newest))
    if type(value).__module__.startswith("pyarrow"):
        return arrow_buffers(value)
    columns = [value[name] for name in value] if isinstance(value, pd.DataFrame) else [value]
    found = []
    for column in columns:
        array = column.array
        if hasattr(array, "_pa_array"):
            found += arrow_buffers(pa.chunked_array(array._pa_array))
        for name in ("_codes", "_data", "_mask", "_ndarray"):
            part = getattr(array, name, None)
            if isinstance(part, np.ndarray):
                found.append((part.__array_interface__["data"][0], part.nbytes))
    return found


@pytest.mark.parametrize("case", CASES)
def test_large_buffers_are_written_once_and_read_in_place(case):
    make, large = CASES[case]
    value, store = make(), Store()
    encoded = store.encode(value)
    inline = sum(len(part) for part in encoded.parts() if type(part) is not tuple)
    assert inline < LEAST
    assert large * 0.99 <= encoded.size - inline <= 1.3 * large + LEAST
    views, view = [], store.mappings.view
    store.mappings.view = lambda segment: views.append(view(segment)) or views[-1]
    there = store.decode(encoded)
    assert there.equals(value)
    mapped = [np.frombuffer(each, np.uint8) for each in views]
    spans = [(m.__array_interface__["data"][0], m.nbytes) for m in mapped]
    held = buffers(there)
    assert sum(size for _, size in held) >= 0.99 * large
    for address, size in held:
        assert size < LEAST or any(low <= address < low + length for low, length in spans)


PARTS = {
    "table": lambda: pa.table({**NUMBERS, "s": TEXT}).slice(1000, 10_000),
    "batch": lambda: pa.record_batch({"a": NUMBERS["i"]}).slice(5, 10_000),
    "array": lambda: pa.array(TEXT).slice(1000, 10_000),
    "chunked array": lambda: pa.chunked_array([TEXT[:500], TEXT]).slice(10, 10_000),
    "no rows": lambda: pa.table({"s": TEXT}).slice(5, 0),
    "no rows of a batch": lambda: pa.record_batch({"s": TEXT}).slice(5, 0),
    "dictionary": lambda: pa.array(TEXT).dictionary_encode().slice(7, 10),
    "pandas": lambda: pd.DataFrame({"s": pd.array(TEXT, "string[pyarrow]")}).iloc[1000:11_000],
    "polars": lambda: pl.DataFrame(NUMBERS).slice(1000, 10_000),
}


@pytest.mark.parametrize("case", PARTS)
def test_a_part_does_not_take_the_whole_along(case):
    value, store = PARTS[case](), Store()
    encoded = store.encode(value)
    rows = len(value)
    assert encoded.size <= 120 * rows + 2 * LEAST
    there = store.decode(encoded)
    assert type(there) is type(value)
    assert there.equals(value)


@pytest.mark.parametrize("make", [
    lambda: pl.DataFrame({"c": pl.Series(TEXT, dtype=pl.Categorical)}),
    lambda: pl.DataFrame({"e": pl.Series(["a", "b"] * N, dtype=pl.Enum(["b", "a"]))}),
    lambda: pl.DataFrame({"d": pl.Series([1] * N, dtype=pl.Decimal(20, 2))}),
    lambda: pl.DataFrame({"x": pl.Series([[1, 2]] * N, dtype=pl.Array(pl.Int8, 2))}),
    lambda: pl.DataFrame({"o": [{"a": 1}] * N}),
    lambda: pl.Series("n", [None] * N),
    lambda: pl.DataFrame(NUMBERS).lazy(),
])
def test_other_types_of_polars_come_back_as_they_were(make):
    value = make()
    there = Store().there_and_back(value)
    if isinstance(value, pl.LazyFrame):
        value, there = value.collect(), there.collect()
    assert there.equals(value)
    assert repr(there) == repr(value)  # with its types


def test_sizes_are_those_of_the_columns():
    assert 24 * N <= size_of(pl.DataFrame(NUMBERS)) <= 25 * N
    assert 24 * N <= size_of(pa.table(NUMBERS)) <= 25 * N


@delayed
def edited(frame):
    frame["f"] = 0.0
    frame.loc[0, "i"] = 7
    return frame["i"].iloc[0] + frame["f"].sum()


@delayed
def is_writable(frame):
    return frame["f"].to_numpy().flags.writeable


def test_processes_share_a_frame_that_no_task_changes():
    """An edit makes a copy of the column in the task that edits."""
    frame = put(pd.DataFrame(NUMBERS), scheduler="processes")
    first = [edited(frame) for _ in range(3)]
    sums = delayed(lambda frame: frame["f"].sum() + frame["i"].iloc[0])(frame)
    values = compute(first, sums, is_writable(frame), scheduler="processes")
    assert values == ([7.0] * 3, NUMBERS["f"].sum(), False)
