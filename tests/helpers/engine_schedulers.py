"""The five schedulers as parameters of tests: those that need an engine are skipped without it.

Ray takes seconds to begin and to end, so what runs there is slow.
"""

import os
import sys
from contextlib import contextmanager
from importlib.util import find_spec

import pytest


def _needs(engine):
    return pytest.mark.skipif(find_spec(engine) is None, reason=f"{engine} is not installed")


DISTRIBUTED = pytest.param("distributed", marks=_needs("distributed"))
RAY = pytest.param("ray", marks=[
    _needs("ray"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning"),  # Ray's own
])

LOCAL = ["sync", "threads", "processes"]
SCHEDULERS = [*LOCAL, DISTRIBUTED, RAY]
CONCURRENT = SCHEDULERS[1:]
ELSEWHERE = SCHEDULERS[2:]


def skip_without_threads_at_the_end(scheduler="distributed"):
    """Skip a test of programs that end with work in a cluster, where Python can't finish it."""
    if scheduler == "distributed" and (3, 12) <= sys.version_info < (3, 12, 3):
        pytest.skip("no thread can be started while a program ends: python/cpython issue 113964")


@contextmanager
def local_client(workers=2, threads=1, **options):
    """A client of a cluster of this machine, whose workers come back however often they end.

    A LocalCluster looks 15 s after an end whether the worker is there, and gives it up for good if
    it ended again just then: tests that kill several were left without workers. Workers are
    forked from one process that has imported distributed: the imports were half of these tests;
    programs that are started here have theirs as everybody has. The engine's profiler is off: a
    frame that it looks at holds the values of a task beyond its end (1.5 % of 400 first calls), and
    then a value has two holders, where tests say that nobody else holds it.
    """
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    import dask

    with (
        dask.config.set({
            "distributed.deploy.lost-worker-timeout": "1h",
            "distributed.worker.multiprocessing-method": "forkserver",
            "distributed.worker.profile.enabled": False,
        }),
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=threads, host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            env=dict(os.environ),  # as it is now, not as that one process found it
        ) as cluster,
        distributed.Client(cluster, **options) as client,
    ):
        yield client


def both_workers(client):
    """Return the addresses of the two workers, once the ones that a test has ended are back."""
    client.wait_for_workers(2, timeout=20)
    first, second = client.nthreads()  # asks; scheduler_info() tells what the client heard last
    return first, second
