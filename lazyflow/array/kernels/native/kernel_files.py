"""Compiled kernels on disk: small files in the user's cache folder, replaced by rename.

A file that is damaged or of another user counts as missing; failed writes are ignored.
"""

from __future__ import annotations

import hashlib
import os

from lazyflow import config

_HEAD = b"lazyflow kernel 1\n"


def default_folder() -> str:
    """Return the folder for kernels when none is set."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "lazyflow", "kernels")


def folder() -> str | None:
    """Return where kernels are kept, or None."""
    found = config.get("kernel_cache")
    return None if found is False else found or default_folder()


def read(folder: str, name: str) -> bytes | None:
    """Return the object code of a name, or None."""
    try:
        with open(os.path.join(folder, name), "rb") as file:
            state = os.fstat(file.fileno())
            if state.st_uid != os.getuid() or state.st_mode & 0o022:
                return None  # code that others could have written
            found = file.read()
    except OSError:
        return None
    start = len(_HEAD) + 32
    code = found[start:]
    good = found[:start] == _HEAD + hashlib.sha256(code).digest()
    return code if good else None


def write(folder: str, name: str, code: bytes) -> None:
    """Keep object code in a file, if that is possible."""
    import tempfile  # 4 ms, and most programs only read

    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        fd, path = tempfile.mkstemp(dir=folder, prefix=".new-")  # readable to its owner only
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(_HEAD + hashlib.sha256(code).digest() + code)
            os.replace(path, os.path.join(folder, name))
        except BaseException:
            os.unlink(path)
            raise
    except OSError:
        pass
