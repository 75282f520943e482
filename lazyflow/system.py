"""Functions of the operating system, each in the form of Linux and in a portable one.

The form is chosen by whether the function exists, not by the system's name. So it also works on a
kernel that is too old for one function, and tests can hide functions to try the other form. Without
the functions of Linux, these things are weaker:

- a worker's death shows as the end of a socket that only it holds, so that a child that it forked
  and that survives it delays the news (Linux: ``pidfd_open``);
- workers note the parent's death in a thread, which has to wait for the GIL while C code keeps it
  (Linux: the kernel sends them SIGKILL);
- memory that was given back to a store stays with it until its end (Linux: ``MADV_REMOVE``);
- a process that reads shared memory can make it shorter, which ends other readers; nothing of
  lazyflow's does (Linux: ``F_ADD_SEALS``);
- memory that a process has freed may stay with it, in the pools of its C library (GNU's:
  ``malloc_trim``);
- memory between processes is a file without a name in the folder for temporary files, which the
  system may write to disk (Linux: ``memfd_create``);
- results are sent instead of written into memory of the parent, and arrays on mapped files are
  copied instead of opened by path (Linux: ``/proc``);
- free memory, and the memory that processes use, are known only where psutil is installed; the peak
  of a worker that died is known only beyond the peak that this process inherited (Linux:
  ``/proc``).

On Windows lazyflow starts no worker processes: see `lacks_processes`.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain, repeat, starmap
from math import ceil
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

# Tasks, plans and futures are changed by single steps of C, which only the GIL makes whole.
if not getattr(sys, "_is_gil_enabled", lambda: True)():
    raise ImportError(
        f"lazyflow needs the GIL, and this Python {sys.version.split()[0]} runs without it: "
        "results of tasks could be lost. Start it with PYTHON_GIL=1 in the environment or as "
        "python -X gil=1, or use the build with the GIL, which NumPy releases as ever"
    )

# -- processes, forks, cores -------------------------------------------------------------------

#: `os.register_at_fork`; it does nothing where processes can't be forked.
at_fork: Callable[..., None] = getattr(os, "register_at_fork", lambda **calls: None)


def lacks_processes() -> str:
    """Return the names that the system lacks for worker processes; "" if none is missing.

    >>> lacks_processes()
    ''
    """
    import socket

    needed = [(os, "fork"), (os, "killpg"), (socket, "AF_UNIX"), (select, "poll")]
    return ", ".join(
        f"{module.__name__}.{name}" for module, name in needed if not hasattr(module, name)
    )


def core_count() -> int:
    """Return the number of cores that this process may use, by its affinity and control groups.

    >>> core_count() >= 1
    True
    """
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        cores = os.process_cpu_count() or 1
    elif hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min(cores, _group_cores()))


def resource_limits() -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the limits that the system sets for this process."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for name in ("NOFILE", "NPROC", "AS", "MEMLOCK", "STACK", "CORE"):
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is not None:
            soft, hard = ("none" if n == resource.RLIM_INFINITY else str(n)
                          for n in resource.getrlimit(kind))
            yield f"RLIMIT_{name}", soft if soft == hard else f"{soft}, which may be set to {hard}"


# -- descriptors -------------------------------------------------------------------------------

#: An object that closes a descriptor when it is collected, in C and without a warning. On Windows
#: there is none, and nothing that needs one.
_OWNER: Any = getattr(select, "epoll", None) or getattr(select, "kqueue", None)


def owned(fd: int) -> Any:
    """Return an object that closes a descriptor when it is collected.

    It has ``fileno()`` and ``close()``.
    """
    return _OWNER.fromfd(fd)


def opened(make: Callable[..., Any], *args: Any) -> Any:
    """Return `owned` of the descriptor that a function returns.

    Both are one step of C: a Ctrl-C can't come between them and leave the descriptor open.
    """
    return next(map(_OWNER.fromfd, starmap(make, (args,))))


def opened_pipe() -> tuple[Any, Any]:
    """Return `owned` of both ends of a new pipe.

    >>> read, write = opened_pipe()
    >>> os.write(write.fileno(), b"a"), os.read(read.fileno(), 9)
    (1, b'a')
    """
    read, write = map(_OWNER.fromfd, chain.from_iterable(starmap(os.pipe, ((),))))
    return read, write


_OWN_DESCRIPTORS = "/proc/self/fd"


def has_descriptors_of_others() -> bool:
    """Tell whether a process can open files of another one by their numbers."""
    return os.path.isdir(_OWN_DESCRIPTORS)


def open_descriptor_of(process: int, number: int, label: str) -> int:
    """Open a file of another process, for reading and writing; its name has to have the label.

    Raises
    ------
    OSError
        There is no such process here, or no such file.
    """
    fd = os.open(f"/proc/{process}/fd/{number}", os.O_RDWR | os.O_CLOEXEC)
    try:
        if label in os.readlink(f"{_OWN_DESCRIPTORS}/{fd}"):
            return fd
        raise OSError("another machine's process, or another file by now")
    except OSError:
        os.close(fd)
        raise


Waker: TypeAlias = tuple[Any, Callable[[Any], Any], Callable[[], Any]]


def make_waker() -> Waker:
    """Return a file, a function `wake`, and a function `note`, for a thread that waits for work.

    The thread waits until the ``fileno()`` of the file is readable. `wake` makes it readable. The
    thread, now awake, calls `note`, which makes it unreadable again, and then looks for work. A
    call of `wake` while `note` runs may be lost, which does no harm: the look for work comes after.
    `wake` takes any argument and is all C, as callbacks of weak references must be. It keeps the
    file open: else the descriptor could be another file's by the time that somebody wakes.
    """
    if not hasattr(os, "eventfd"):
        return _pipe_waker()
    wake = opened(os.eventfd, 0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    ring = partial(next, map(os.eventfd_write, repeat(wake.fileno()), repeat(1)))
    ring.owner = wake  # type: ignore[attr-defined]
    return wake, ring, partial(os.eventfd_read, wake.fileno())


def _pipe_waker() -> Waker:
    """Return likewise a pipe, which never has more than one byte: a full one would raise."""
    read, write = opened_pipe()
    byte = {0: b"\0"}  # whoever takes it writes it, the others write nothing
    taken = starmap(byte.pop, repeat((0, b"")))
    ring = partial(next, map(os.write, repeat(write.fileno()), taken))
    ring.owner = read, write  # type: ignore[attr-defined]

    def note() -> None:
        os.read(read.fileno(), 1)
        byte[0] = b"\0"

    return read, ring, note


class Poller:
    """Waits for descriptors: `select.poll` with the methods of `select.epoll`."""

    def __init__(self) -> None:
        poll = self._poll = select.poll()
        self.register, self.modify, self.unregister = poll.register, poll.modify, poll.unregister

    def poll(self, timeout: float | None) -> list[tuple[int, int]]:
        """Return ready descriptors, each with its events, after so many seconds at most."""
        return self._poll.poll(None if timeout is None else ceil(timeout * 1000))

    def close(self) -> None:
        """Do nothing: there is no descriptor."""


def make_poller() -> Any:
    """Return a `select.epoll`, or a `Poller` where there is none; both take the flags of `poll`."""
    return select.epoll() if hasattr(select, "epoll") else Poller()


# -- the end of another process ----------------------------------------------------------------


def death_sentinel(pid: int, lifeline: int) -> int:
    """Return a new descriptor that becomes readable when a child ends.

    Parameters
    ----------
    lifeline
        This process's end of a socket pair of which only the child has the other end.
    """
    return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else os.dup(lifeline)


# -- memory and use of processors --------------------------------------------------------------


def peak_memory() -> int:
    """Return the peak memory of this process in bytes; if possible without the inherited peak."""
    for line in _lines("/proc/self/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RUSAGE_UNIT


#: Bytes of one unit of ``ru_maxrss``, which depends on the system's name alone.
RUSAGE_UNIT = 1 if sys.platform == "darwin" else 1024


def total_memory() -> int | None:
    """Return the bytes of memory of the machine; None: unknown."""
    return _meminfo("MemTotal") or _by_psutil(lambda psutil: psutil.virtual_memory().total)


def free_memory() -> int | None:
    """Return the free bytes of the machine; None: unknown."""
    found = _meminfo("MemAvailable")
    if found is None:
        return _by_psutil(lambda psutil: psutil.virtual_memory().available)
    return found


def _meminfo(name: str) -> int | None:
    for line in _lines("/proc/meminfo"):
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return None


# -- control groups: a limit of any group above this process counts -----------------------------

_CGROUP = "/sys/fs/cgroup"


def _group_folders(controller: str) -> Iterator[str]:
    """Yield the folder of each control group above this process that a controller may limit."""
    for line in _lines("/proc/self/cgroup"):
        _, controllers, path = line.strip().split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        folder = f"{_CGROUP}/{controller}" if controllers else _CGROUP
        path = path.rstrip("/")
        while path:
            yield folder + path
            path = path.rpartition("/")[0]
        yield folder


def _group_cores() -> int:
    """Return the number of cores that the quota of the control groups allows."""
    quotas = ["".join(_lines(f"{folder}/cpu.max")).split() for folder in _group_folders("cpu")]
    limits = [round(int(q[0]) / int(q[1])) for q in quotas if q and q[0] != "max"]
    return min(limits, default=sys.maxsize)


def group_limits() -> Iterator[tuple[str, str]]:
    """Yield the files of control groups that limit cores or memory, with their contents."""
    quotas = [f"{folder}/cpu.max" for folder in _group_folders("cpu")]
    memory = [limit for limit, _, _ in _memory_groups() if _bytes_in(limit) is not None]
    for path in (*quotas, *memory):
        if text := "".join(_lines(path)).strip():
            yield path, text


def _bytes_in(path: str) -> int | None:
    """Return the number in a file of a memory group; None: no limit."""
    text = "".join(_lines(path)).strip()  # "max", or without a unified hierarchy a huge number
    return int(text) if text.isdecimal() and int(text) < 1 << 62 else None


@cache
def _memory_groups() -> list[tuple[str, str, str]]:
    """Return the files of each group that limits memory: its limit, its usage, its statistics."""
    names = [("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")]
    return [
        (f"{folder}/{limit}", f"{folder}/{usage}", f"{folder}/memory.stat")
        for folder in _group_folders("memory")
        for limit, usage in names
        if os.path.exists(f"{folder}/{limit}")
    ]


def group_memory() -> int | None:
    """Return the bytes that control groups let this process still take, None if they set no limit.
    """
    left = []
    for limit, usage, statistics in _memory_groups():
        most, used = _bytes_in(limit), _bytes_in(usage)
        if most is not None and used is not None:
            stat = dict(ln.split() for ln in _lines(statistics) if ln.count(" ") == 1)
            # Pages of files that the kernel drops when memory is asked for.
            cached = int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))
            left.append(max(0, most - used + cached))
    return min(left, default=None)


def granted_memory() -> int | None:
    """Return the bytes that the machine has, or the control groups grant, None where not known."""
    limits = [_bytes_in(limit) for limit, _, _ in _memory_groups()]
    return min((n for n in (total_memory(), *limits) if n is not None), default=None)


@cache
def _trim() -> Callable[[int], int] | None:
    import ctypes

    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # not the C library of GNU
        return None
    return found


def return_freed_memory() -> None:
    """Give memory that this process has freed back to the system, where its allocator can."""
    trim = _trim()
    if trim is not None:
        trim(0)


def is_in_memory(folder: str) -> bool:
    """Tell whether the files of a folder are in memory, as far as that is known."""
    path, best = os.path.realpath(folder) + "/", ("", "")
    for line in _lines("/proc/self/mounts"):
        _, mounted, kind, *_ = line.split()
        best = max(best, (mounted.rstrip("/") + "/", kind)) if path.startswith(
            mounted.rstrip("/") + "/") else best
    return best[1] in ("tmpfs", "ramfs")


def process_usage(pid: int) -> tuple[int | None, int, float]:
    """Return bytes of memory, how much of it is shared, and CPU seconds of a process.

    None and zeros for one that has ended, and where that is not known.

    >>> process_usage(-1)
    (None, 0, 0.0)
    """
    memory = "".join(_lines(f"/proc/{pid}/statm")).split()
    fields = "".join(_lines(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    if memory and fields:
        ticks = int(fields[11]) + int(fields[12])
        page = os.sysconf("SC_PAGE_SIZE")
        return int(memory[1]) * page, int(memory[2]) * page, ticks / os.sysconf("SC_CLK_TCK")
    return _by_psutil(partial(_psutil_usage, pid)) or (None, 0, 0.0)


def _psutil_usage(pid: int, psutil: Any) -> tuple[int, int, float]:
    process = psutil.Process(pid)
    times = process.cpu_times()
    return process.memory_info().rss, 0, times.user + times.system


def idle_seconds() -> float | None:
    """Return the seconds that the machine's cores have been idle since it started, where known."""
    for line in _lines("/proc/stat"):
        fields = line.split()
        return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")
    return _by_psutil(lambda psutil: psutil.cpu_times().idle)


def mapped_path(address: int) -> str | None:
    """Return the present path of the file that is mapped at an address, None where unknown."""
    for line in _lines("/proc/self/maps"):
        if int(line[: line.index("-")], 16) == address:
            parts = line.rstrip("\n").split(maxsplit=5)
            return parts[5] if len(parts) == 6 else None
    return None


_NAMES = sys.getfilesystemencoding()


def _lines(path: str) -> Iterator[str]:
    """Yield the lines of a file of the kernel's; none if it is missing."""
    try:
        with open(path, encoding=_NAMES, errors="surrogateescape", newline="\n") as file:
            yield from file
    except OSError:  # not Linux, or a process that has ended
        pass


def _by_psutil(read: Callable[[Any], T]) -> T | None:
    """Return the figures of psutil; None if it is not installed, or fails (also at its import)."""
    try:
        import psutil

        return read(psutil)
    except Exception:
        return None
