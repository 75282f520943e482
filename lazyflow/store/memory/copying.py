"""Large copies by two threads: one does not saturate memory, nor the faults of new pages."""

from __future__ import annotations

import threading
from typing import Any


def copy_by_two(to: Any, source: Any) -> None:
    """Copy one array of bytes to another, half of it in a thread of its own.

    >>> import numpy as np
    >>> copy = np.empty(5, np.uint8)
    >>> copy_by_two(copy, np.arange(5, dtype=np.uint8))
    >>> copy
    array([0, 1, 2, 3, 4], dtype=uint8)
    """
    from numpy import copyto  # without the GIL

    half = len(source) // 2
    other = threading.Thread(target=copyto, args=(to[:half], source[:half]))
    try:
        other.start()
    except RuntimeError:  # the system gives no more threads
        copyto(to, source)
        return
    try:
        copyto(to[half:], source[half:])
    finally:
        _join(other)


def _join(thread: threading.Thread) -> None:
    """Wait for a thread that writes here; a Ctrl-C meanwhile is raised when it has ended."""
    interrupt: KeyboardInterrupt | None = None
    while thread.is_alive():
        try:
            thread.join()
        except KeyboardInterrupt as caught:
            interrupt = caught
    if interrupt is not None:
        raise interrupt


_BY_TWO = 6 << 20  # bytes of new memory from which two threads fill it; a guess


def copy_of(buffer: Any) -> memoryview:
    """Return a copy of memory, in an array's: its pages are large, which a bytearray's are not."""
    import numpy as np

    copy = np.empty(memoryview(buffer).nbytes, np.uint8)
    source = np.frombuffer(buffer, np.uint8)
    if len(source) >= _BY_TWO:
        copy_by_two(copy, source)
    else:
        copy[:] = source
    return copy.data
