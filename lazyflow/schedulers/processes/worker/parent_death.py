"""The worker's end of the lifeline: when the parent is gone, so is this process, and its group.

This module imports nothing that takes time: it is armed before anything else.
"""

import fcntl
import os
import signal
import threading


def arm(fd: int) -> None:
    """Have this process and its group killed when the other end of `fd` closes."""
    os.set_inheritable(fd, False)
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(fd, fcntl.F_SETOWN, -os.getpgrp())
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
        try:
            if not os.read(fd, 1):  # the parent was gone before
                os.killpg(0, signal.SIGKILL)
        except BlockingIOError:
            pass
    else:  # no signal of one's choice: a thread waits, and needs the GIL to act
        threading.Thread(target=_wait, args=(fd,), daemon=True).start()


def _wait(fd: int) -> None:
    os.read(fd, 1)
    os.killpg(0, signal.SIGKILL)
