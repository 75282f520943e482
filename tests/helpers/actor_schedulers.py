"""The schedulers that keep actors, as fixtures."""

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from engine_schedulers import both_workers, local_client

import lazyflow
from lazyflow import (
    config,
)

RAY = pytest.param("ray", marks=[
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning"),
])
REMOTE = ["processes", "distributed", RAY]
CONCURRENT = ["threads", *REMOTE]
SCHEDULERS = ["sync", *CONCURRENT]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with local_client() as client:
        yield client


@pytest.fixture(scope="module")
def ray() -> Iterator[None]:
    """Let the workers of Ray find the modules of tests, as a program's modules have to be found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
        yield
        lazyflow.shutdown()


def scheduling(request: pytest.FixtureRequest, name: str) -> Iterator[str]:
    if name == "distributed":  # those that an earlier test has killed are there again
        both_workers(request.getfixturevalue("client"))
    elif name == "ray":
        request.getfixturevalue(name)
    with config.set(scheduler=name, num_workers=2):
        yield name


@pytest.fixture(params=SCHEDULERS)
def scheduler(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from scheduling(request, request.param)


@pytest.fixture(params=CONCURRENT)
def scheduled(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from scheduling(request, request.param)


@pytest.fixture(params=REMOTE)
def remote(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from scheduling(request, request.param)


@pytest.fixture(params=["processes", RAY])
def separate(request: pytest.FixtureRequest) -> Iterator[str]:
    """Schedulers where an actor has a process of its own."""
    yield from scheduling(request, request.param)


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from scheduling(request, "distributed")


@pytest.fixture
def processes(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from scheduling(request, "processes")
