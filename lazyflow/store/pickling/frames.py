"""Tables of Arrow and of polars, as they travel: their buffers, which the receiver reads in place.

pyarrow itself leaves buffers out of a stream, but whole ones: each part of a table that was sliced
would take all of the table along. Such a part is written anew, by Arrow's format for messages.
polars would send a copy, and the receiver make another one: its columns travel as those of Arrow
where pyarrow is installed and the types of both are the same. (pandas' frames need nothing: their
parts are arrays of NumPy, or of Arrow.)
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

#: Types of polars that come back from Arrow as they were, without a copy.
_PLAIN = frozenset({
    "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64",
    "Boolean", "String", "Binary", "Date", "Time", "Datetime", "Duration",
})


def reducer_of_table(cls: type) -> Any:
    """Return the reducer of a type of pyarrow or polars, None where `pickle` reduces its objects.

    A reducer takes the pickler and the object.
    """
    if cls.__module__ == "pyarrow.lib":
        return _arrow if hasattr(cls, "get_total_buffer_size") else None
    return _polars if cls.__name__ in ("DataFrame", "Series") else None


def _arrow(pickler: Any, value: Any) -> Any:
    size = value.nbytes  # of the rows that it has, while its buffers may have others
    if value.get_total_buffer_size() <= 2 * size + pickler.least:
        return NotImplemented
    pa = sys.modules["pyarrow"]
    is_table = hasattr(value, "schema")
    table = value if is_table else pa.table([value], [""])
    if not len(value):  # of no rows the message would have all offsets of texts
        table = table.schema.empty_table()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return _from_message, (pickle.PickleBuffer(sink.getvalue()), type(value).__name__, is_table)


def _from_message(buffer: Any, name: str, is_table: bool) -> Any:
    import pyarrow as pa

    table = pa.ipc.open_stream(pa.py_buffer(buffer)).read_all()
    if not is_table:
        column = table.column(0)
        return column if name == "ChunkedArray" else column.combine_chunks()
    if name == "Table":
        return table
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _polars(pickler: Any, frame: Any) -> Any:
    is_series = type(frame).__name__ == "Series"
    if frame.estimated_size() < pickler.least or not all(
        map(_is_plain, [frame.dtype] if is_series else frame.dtypes)
    ):
        return NotImplemented
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return NotImplemented
    newest = sys.modules["polars"].CompatLevel.newest()  # texts as polars has them
    table = (frame.to_frame() if is_series else frame).to_arrow(compat_level=newest)
    return _polars_from, (table, is_series)


def _is_plain(dtype: Any) -> bool:
    while dtype.base_type().__name__ == "List":
        dtype = dtype.inner
    return dtype.base_type().__name__ in _PLAIN


def _polars_from(table: Any, is_series: bool) -> Any:
    import polars as pl

    frame: Any = pl.from_arrow(table, rechunk=False)
    return frame.to_series() if is_series else frame
