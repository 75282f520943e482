"""Exceptions on their way to another process and back."""

import marshal
import os
import pathlib
import subprocess
import sys

import lazyflow
from lazyflow.schedulers.core.errors.records import rebuilt, record

_PATHS = [pathlib.Path(lazyflow.__file__).parent.parent, pathlib.Path(__file__).parent]


def there_and_back(error: BaseException) -> BaseException:
    return rebuilt(marshal.loads(marshal.dumps(record(error))))


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def in_child(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, _PATHS)), **environment},
        capture_output=True,
        timeout=60,
    )
