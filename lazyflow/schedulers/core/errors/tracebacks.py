"""Tracebacks as plain data, and real tracebacks made of it in another process.

What is made can be raised, printed by the interpreter and read by `traceback`: it shows file,
line, source and the marks under it as the first one did. Its frames have no local variables.
"""

from __future__ import annotations

import os
from functools import lru_cache
from itertools import islice
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, NamedTuple

_FIRST = _LAST = 50  # frames kept at each end of a traceback
_LONGEST = 1_000  # characters of a name


class Frame(NamedTuple):
    """A place in a traceback; sent as the plain tuple of its fields.

    `first` is the line where its function begins: IPython counts a cell's lines from there.
    """

    file: str
    line: int
    name: str
    qualname: str
    module: str
    end_line: int | None
    column: int | None
    end_column: int | None
    first: int


def plain(text: str, longest: int) -> str:
    """Return a string as an exact `str`, cut to the length given.

    >>> plain("abcdef", 3)
    'abc... (6 characters in all)'
    """
    # The methods are those of str: a subclass may have others, and can't be marshalled.
    length = str.__len__(text)
    start = str.__getitem__(text, slice(0, longest))
    return start if length <= longest else f"{start}... ({length} characters in all)"


def frames_of(trace: TracebackType | None) -> list[Frame]:
    """Describe a traceback, its first and last 50 frames if there are more."""
    all_of_them = []
    while trace is not None:
        all_of_them.append(trace)
        trace = trace.tb_next
    left_out = len(all_of_them) - _FIRST - _LAST
    if left_out <= 0:
        return [_frame_of(at) for at in all_of_them]
    mark = Frame(f"<{left_out} more frames>", 1, "...", "...", "", None, None, None, 1)
    return [
        *map(_frame_of, all_of_them[:_FIRST]),
        mark,
        *map(_frame_of, all_of_them[-_LAST:]),
    ]


def _frame_of(at: TracebackType) -> Frame:
    code, lasti = at.tb_frame.f_code, at.tb_lasti
    line, end_line, column, end_column = None, None, None, None
    if lasti >= 0:
        nothing = (None, None, None, None)
        line, end_line, column, end_column = next(
            islice(code.co_positions(), lasti // 2, None), nothing
        )
    if line != at.tb_lineno:  # the traceback was given a line by hand
        line, end_line, column, end_column = at.tb_lineno, None, None, None
    module = dict.get(at.tb_frame.f_globals, "__name__")
    return Frame(
        _file_name(code),
        max(line or 0, 0),
        plain(code.co_name, _LONGEST),
        plain(code.co_qualname, _LONGEST),
        plain(module, _LONGEST) if isinstance(module, str) else "",
        end_line,
        column,
        end_column,
        code.co_firstlineno,
    )


def _file_name(code: CodeType) -> str:
    name = plain(code.co_filename, _LONGEST).replace("\0", "\\0")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:  # printing it would fail
        name = name.encode("utf-8", "backslashreplace").decode()
    return name


def traceback_from(frames: list[Frame]) -> TracebackType | None:
    """Make a traceback of frames that were described, maybe in another process."""
    trace = None
    for frame in reversed(frames):
        code, lasti = _code(frame)
        trace = TracebackType(trace, _frame(code, frame), lasti, frame.line)
    return trace


def _frame(code: CodeType, frame: Frame) -> FrameType:
    # The frame of a generator that waits refers to no frame that called it, so it keeps nothing
    # of the caller's process alive. It has gone to its yield, since IPython asks it for its line.
    made = FunctionType(code, {"__name__": frame.module, "__file__": frame.file})()
    next(made)
    found: FrameType = made.gi_frame
    return found


@lru_cache(1024)
def _code(frame: Frame) -> tuple[CodeType, int]:
    """Return code that stands where the frame did, and the offset of its instruction there."""
    place = (frame.line, frame.end_line, frame.column, frame.end_column)
    code = _code_at(frame.first, *place) or _code_at(frame.line, frame.line, frame.line, 0, 0)
    assert code is not None
    places = list(code.co_positions())
    lasti = 2 * places.index(place) if place in places else -1
    return (
        code.replace(co_filename=frame.file, co_name=frame.name, co_qualname=frame.qualname),
        lasti,
    )


def _code_at(
    first: int, line: int, end_line: int | None, column: int | None, end_column: int | None
) -> CodeType | None:
    """Return the code of a generator that begins at a line and yields at a place in a file.

    None if there is no such place.
    """
    import ast

    if end_line is None or column is None or end_column is None:
        return None
    ends: dict[str, Any] = {
        "lineno": line,
        "end_lineno": end_line,
        "col_offset": column,
        "end_col_offset": end_column,
    }
    whole = ends | {"lineno": first, "col_offset": 0} if 0 < first < line else ends
    # Not a lambda: since Python 3.13 its frame refers, when it ends, to the one that ended it.
    module = ast.parse("def made():\n    yield")
    for node in ast.walk(module.body[0]):
        vars(node).update(ends)
    vars(module.body[0]).update(whole)
    try:
        outer = compile(module, "", "exec")
    except ValueError:  # places of generated code may run backwards
        return None
    (inner,) = (const for const in outer.co_consts if isinstance(const, CodeType))
    return inner
