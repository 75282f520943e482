"""Ctrl-C at a step: KeyboardInterrupt after the n-th instruction of ours where signals are seen."""

import dis
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import lazyflow
from lazyflow.graph import spec

HERE = str(Path(lazyflow.__file__).parent)
LOOKS = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "RESUME", "FOR_ITER"}

_before: dict[CodeType, dict[int, str]] = {}


def before(code: CodeType, offset: int) -> str:
    """Name the instruction before the one at an offset.

    There is none before the first of a handler: an error leads there, not the instruction above
    it, and no signal is looked for. Raised there, Python 3.11 lost a reference to the error.
    """
    known = _before.get(code)
    if known is None:
        names = [(i.offset, i.opname) for i in dis.get_instructions(code)]
        known = _before[code] = {
            here[0]: last[1] for last, here in pairwise(names) if here[1] != "PUSH_EXC_INFO"
        }
    return known.get(offset, "")


def in_finalizer(frame: FrameType | None) -> bool:
    """Tell whether Python would drop the exception, and leave the finalizer half done."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


class InterruptAt:
    """Raises KeyboardInterrupt at the n-th place."""

    def __init__(self, n: int) -> None:
        self.left = n
        self.place: tuple[str, int] | None = None

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(HERE) or file == spec.__file__ or in_finalizer(frame):
            return None  # only tests check plans by the spec
        frame.f_trace_opcodes = True
        if event == "opcode" and before(frame.f_code, frame.f_lasti) in LOOKS:
            self.left -= 1
            if self.left == 0:
                self.place = frame.f_code.co_filename, frame.f_lineno
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def interrupt(call: Callable[[], Any], n: int) -> tuple[str, int] | None:
    """Call something, interrupted at its n-th place; None when it has fewer."""
    at, traced = InterruptAt(n), sys.gettrace()
    # Python 3.12 traces instructions if some frame asked for them when its tracing began.
    sys._getframe().f_trace_opcodes = True
    try:
        sys.settrace(at)
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(traced)
    return at.place
