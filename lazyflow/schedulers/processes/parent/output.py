"""What workers print, written to the parent's streams line by line.

Each worker has pipes of its own for standard output and error. Inherited descriptors would mix
the lines of several workers, and escape `contextlib.redirect_stdout` and notebooks.
"""

from __future__ import annotations

import os
import sys

_AT_ONCE = 1 << 16
_MOST_READS = 16  # in one go: endless prints must not keep the driver from other workers
_LONGEST_LINE = 1 << 20  # bytes; a longer one is written in parts


class Lines:
    """One pipe of one worker, on its way to ``sys.stdout`` or ``sys.stderr``."""

    def __init__(self, fd: int, stream: str) -> None:
        self.fd = fd
        self._stream = stream
        self._rest = b""

    def drain(self) -> bool:
        """Write the whole lines that are there, 1 MiB at most; False at the end of the pipe."""
        for _ in range(_MOST_READS):
            try:
                data = os.read(self.fd, _AT_ONCE)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            whole, newline, rest = data.rpartition(b"\n")
            if newline:
                self._write(self._rest + whole + newline)
                self._rest = rest
            else:
                self._rest += data
                if len(self._rest) >= _LONGEST_LINE:
                    self.finish()
        return True

    def finish(self) -> None:
        """Write what came without the end of a line: no more is to come now."""
        if self._rest:
            rest, self._rest = self._rest, b""
            self._write(rest)

    def _write(self, data: bytes) -> None:
        stream = getattr(sys, self._stream)
        try:
            stream.write(data.decode("utf-8", "replace"))
            stream.flush()
        except Exception:  # closed, or none at all: output is not worth the pool
            pass
