"""`scheduler="distributed"`: the contract, and what is its own."""

import pytest

from lazyflow.testing.contract import SchedulerContract

distributed = pytest.importorskip("distributed", reason="distributed is not installed")


@pytest.fixture(scope="module", autouse=True)
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


class TestContract(SchedulerContract):
    scheduler = "distributed"
    shares_memory = False
    survives_fork = False
