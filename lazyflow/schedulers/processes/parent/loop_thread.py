"""The thread of the driver: started once, by whichever thread needs it first."""

from __future__ import annotations

import threading
from collections.abc import Callable


class LoopThread:
    """A thread that is started once, also if a Ctrl-C ends the thread that starts it."""

    def __init__(self, target: Callable[[], None]) -> None:
        self._unstarted = [None]  # the thread that pops it starts this one
        self.thread = threading.Thread(target=target, name="lazyflow-processes", daemon=True)

    def begin(self) -> None:
        """Start the thread, unless that was done before a Ctrl-C ended the thread that did it."""
        if threading.current_thread() is not threading.main_thread():
            self._start_once()
            return
        # Thread.start is Python: a Ctrl-C in it could leave the new thread waiting for ever.
        import _thread

        started = threading.Lock()
        started.acquire()
        failed: list[BaseException] = []

        def start() -> None:
            try:
                self._start_once()
            except BaseException as error:
                failed.append(error)
            finally:
                started.release()

        _thread.start_new_thread(start, ())
        started.acquire()
        if failed:
            raise failed[0]

    def _start_once(self) -> None:
        if self._unstarted:
            try:
                self._unstarted.pop()
            except IndexError:  # another thread did
                return
            try:
                self.thread.start()
            except RuntimeError as error:  # the system gives no more threads: the next one tries
                self._unstarted.append(None)
                error.add_note(
                    "lazyflow needs a thread to drive its worker processes: a limit on threads "
                    "(ulimit -u) or on memory (ulimit -v) is the usual cause"
                )
                raise

    @property
    def has_begun(self) -> bool:
        """Whether its thread runs, or did."""
        return self.thread.ident is not None
