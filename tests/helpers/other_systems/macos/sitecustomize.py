"""Hide from lazyflow what macOS does not have: programs started with this folder on their path.

Python imports this module before any other. Only lazyflow looks in vain for ``/proc``: the tests
look there for what is left of a program.
"""

import builtins
import fcntl
import mmap
import os
import select
import socket
import sys

LINUX_ONLY = [
    (os, ["EFD_CLOEXEC", "EFD_NONBLOCK", "eventfd", "eventfd_read", "eventfd_write",
          "MFD_ALLOW_SEALING", "MFD_CLOEXEC", "memfd_create", "pidfd_open", "posix_fallocate",
          "process_cpu_count", "sched_getaffinity"]),
    (fcntl, ["F_ADD_SEALS", "F_SEAL_GROW", "F_SEAL_SHRINK", "F_SETSIG"]),
    (mmap, ["MADV_REMOVE", "MADV_DONTFORK"]),
    (socket, ["MSG_CMSG_CLOEXEC", "SOCK_CLOEXEC", "SOCK_NONBLOCK"]),
    (select, ["epoll"]),
]


class kqueue:
    """Of macOS's `select.kqueue` the part that lazyflow uses: it owns a descriptor."""

    fromfd = select.epoll.fromfd


def _unless_in_proc(call):
    def called(path, *args, **kwargs):
        if str(path).startswith(("/proc/", "/sys/")):
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if caller.partition(".")[0] == "lazyflow":
                raise FileNotFoundError(2, "No such file or directory", path)
        return call(path, *args, **kwargs)

    return called


def _is_folder(path, there=os.path.isdir):
    return not str(path).startswith("/proc") and there(path)


select.kqueue = kqueue
for module, names in LINUX_ONLY:
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
builtins.open = _unless_in_proc(open)
for name in ("open", "readlink", "listdir"):
    setattr(os, name, _unless_in_proc(getattr(os, name)))
os.path.isdir = _is_folder
