"""Hide from programs started with this folder on their path what Windows does not have."""

import os
import select
import signal
import socket
import sys

UNIX_ONLY = [
    (os, ["fork", "forkpty", "register_at_fork", "killpg", "setsid", "getpgrp", "getuid", "geteuid",
          "eventfd", "memfd_create", "pidfd_open", "posix_fallocate", "sched_getaffinity",
          "sysconf", "environb", "wait4", "getloadavg", "O_CLOEXEC", "O_NONBLOCK"]),
    (signal, ["SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "pthread_kill",
              "pthread_sigmask", "setitimer"]),
    (socket, ["AF_UNIX", "SCM_RIGHTS", "recv_fds", "send_fds"]),
    (select, ["epoll", "poll"]),
]

for module, names in UNIX_ONLY:
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None  # an ImportError
