"""Compiled kernels on disk: small files in the user's cache folder, replaced by rename.

They are run as machine code, so a file counts as missing unless it and its folder are this user's
alone (`store.private_files`), and it is what was written under that name. Failed writes are
ignored. There are at most `_MOST` files: those that were used last.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from contextlib import suppress

from lazyflow import config
from lazyflow.store.private_files import open_private, private_folder

_HEAD = b"lazyflow kernel 2\n"
_MOST = 2000  # files, of some 10 kB


def default_folder() -> str | None:
    """Return the folder for kernels when none is set; None for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "lazyflow", "kernels") if os.path.isabs(base) else None


def folder() -> str | None:
    """Return where kernels are kept, or None."""
    found = config.get("kernel_cache")
    return None if found is False else found or default_folder()


def _sum(name: str, code: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + code).digest()


def read(folder: str, name: str) -> bytes | None:
    """Return the object code of a name, or None."""
    try:
        with (
            private_folder(folder) as opened,
            open(open_private(name, opened, os.O_RDONLY), "rb") as file,
        ):
            found = file.read()
            with suppress(OSError):
                os.utime(file.fileno())  # it was used
    except OSError:
        return None
    start = len(_HEAD) + 32
    code = found[start:]
    return code if found[:start] == _HEAD + _sum(name, code) else None


def write(folder: str, name: str, code: bytes) -> None:
    """Keep object code in a file, if that is possible."""
    with suppress(OSError), private_folder(folder) as opened:
        new = f".new-{uuid.uuid4().hex}"
        fd = open_private(new, opened, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with open(fd, "wb") as file:
                file.write(_HEAD + _sum(name, code) + code)
            os.replace(new, name, src_dir_fd=opened, dst_dir_fd=opened)
        except BaseException:
            os.unlink(new, dir_fd=opened)
            raise
        _remove_oldest(opened)


def _remove_oldest(folder: int) -> None:
    """Remove files that were not used for longest, a quarter, when there are too many."""
    names = os.listdir(folder)
    if len(names) <= _MOST:
        return
    found = []
    for name in names:
        with suppress(OSError):  # another process removed it
            found.append((os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime, name))
    for _, name in sorted(found)[: len(found) - 3 * _MOST // 4]:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
