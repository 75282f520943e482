"""Files of this user alone, whose contents are run or unpickled.

Where others may write, as in the folder of temporary files, anybody can put a file, a link or a
pipe under any name. So a folder is opened first and checked, then files in it are opened by name
and checked, and only checked files are read: their owner is this user, other users can't write to
them, they are regular files, and no link has led there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def private_folder(path: str) -> Iterator[int]:
    """Open a folder, which is made if it is missing; return its descriptor, for names of files.

    Raises
    ------
    PermissionError
        It is another user's, others can write to it, or it is a link.
    OSError
        It can't be made or opened.
    """
    try:
        os.makedirs(path, mode=0o700)
    except FileExistsError:
        pass
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(path, flags)
    except NotADirectoryError:  # also of a link
        raise PermissionError(f"{path} is not a folder, or is a link: remove it") from None
    try:
        _check(fd, stat.S_ISDIR, path)
        yield fd
    finally:
        os.close(fd)


def open_private(name: str, folder: int, flags: int) -> int:
    """Open a file of a folder that `private_folder` has opened; return its descriptor.

    Raises
    ------
    PermissionError
        It is another user's, others can write to it, or it is no regular file.
    OSError
        It can't be opened, or is a link.
    """
    # Without O_NONBLOCK a pipe of that name would be waited for.
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        _check(fd, stat.S_ISREG, name)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check(fd: int, is_kind: Callable[[int], bool], path: str) -> None:
    state = os.fstat(fd)
    if not is_kind(state.st_mode):
        raise PermissionError(f"{path} is not a regular file: remove it")
    if state.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to user {state.st_uid}, not to {os.geteuid()}")
    if state.st_mode & _OTHERS:
        raise PermissionError(f"{path} can be written by others: chmod go-w {path}")
