"""A pool of workers for the tests of a file, of which nothing is left after any of them."""

import gc
import os
import resource
from collections.abc import Iterator

import pytest
from fault_tools import (
    MARK,
    ON,
    Before,
    marked,
    new_mark,
)
from waiting import until

import lazyflow
from lazyflow import (
    compute,
    delayed,
)
from lazyflow.testing.signals import inc


@pytest.fixture(scope="module")
def pool() -> Iterator[str]:
    """A pool for the tests of this file, known by a mark in its environment."""
    mark = new_mark()
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, limits[1]))  # no core files of the deaths here
    lazyflow.shutdown()
    os.environ[MARK] = mark
    files = len(os.listdir("/proc/self/fd"))
    try:
        compute([delayed(inc)(1) for _ in range(2)], **ON)
        yield mark
        lazyflow.shutdown()
        assert until(lambda: not marked(mark))
        gc.collect()
        assert until(lambda: len(os.listdir("/proc/self/fd")) <= files)
    finally:
        del os.environ[MARK]
        lazyflow.shutdown()
        resource.setrlimit(resource.RLIMIT_CORE, limits)


@pytest.fixture
def nothing_left(pool: str, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    before = Before(pool)
    yield
    before.check()
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
