"""Hide from a program what another system does not have.

Python imports this module before all others when its folder is on the path; the system is named
by the environment variable LAZYFLOW_TEST_SYSTEM. ``/proc`` is hidden from lazyflow only: the tests
look there for what is left of a program.
"""

import builtins
import os
import select
import sys

LINUX_ONLY = {
    "os": ["EFD_CLOEXEC", "EFD_NONBLOCK", "eventfd", "eventfd_read", "eventfd_write",
           "MFD_ALLOW_SEALING", "MFD_CLOEXEC", "memfd_create", "pidfd_open", "posix_fallocate",
           "process_cpu_count", "sched_getaffinity"],
    "fcntl": ["F_ADD_SEALS", "F_SEAL_GROW", "F_SEAL_SHRINK", "F_SETSIG"],
    "mmap": ["MADV_DONTFORK", "MADV_REMOVE"],
    "socket": ["MSG_CMSG_CLOEXEC", "SOCK_CLOEXEC", "SOCK_NONBLOCK"],
    "select": ["epoll"],
    "signal": ["pidfd_send_signal"],
}
UNIX_ONLY = {
    "os": ["environb", "fork", "forkpty", "getloadavg", "getpgrp", "getuid", "geteuid", "killpg",
           "register_at_fork", "setsid", "sysconf", "wait4", "O_CLOEXEC", "O_NONBLOCK"],
    "signal": ["SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "pthread_kill",
               "pthread_sigmask", "setitimer"],
    "socket": ["AF_UNIX", "SCM_RIGHTS", "recv_fds", "send_fds"],
    "select": ["poll"],
}
UNIX_MODULES = ["fcntl", "grp", "pwd", "resource", "termios"]


class kqueue:
    """Of macOS's `select.kqueue` the part that lazyflow uses: it owns a descriptor."""

    fromfd = select.epoll.fromfd


def hide(names):
    for module, hidden in names.items():
        for name in hidden:
            if hasattr(__import__(module), name):
                delattr(sys.modules[module], name)


def without_proc(call):
    def called(path, *args, **kwargs):
        if str(path).startswith(("/proc/", "/sys/")):
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if caller.partition(".")[0] == "lazyflow":
                raise FileNotFoundError(2, "No such file or directory", path)
        return call(path, *args, **kwargs)

    return called


def is_folder(path, there=os.path.isdir):
    return not str(path).startswith("/proc") and there(path)


hide(LINUX_ONLY)
builtins.open = without_proc(open)
for name in ("open", "readlink", "listdir"):
    setattr(os, name, without_proc(getattr(os, name)))
os.path.isdir = is_folder
match os.environ["LAZYFLOW_TEST_SYSTEM"]:
    case "macos":
        select.kqueue = kqueue
    case "windows":
        import asyncio  # noqa: F401 - here it is Unix's, which needs what is hidden next

        hide(UNIX_ONLY)
        for name in UNIX_MODULES:
            sys.modules[name] = None  # an ImportError
