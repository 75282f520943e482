"""A plugin of pytest by which dask's own tests run on lazyflow's schedulers.

    PYTHONPATH=tests/helpers pytest -p dask_by_lazyflow --pyargs dask.tests.test_threaded
"""

import dask.base
import dask.multiprocessing
import dask.threaded

from lazyflow.interop.dask import get, get_processes, get_sync


def pytest_configure(config):
    dask.threaded.get = get
    dask.multiprocessing.get = get_processes
    for name, ours in (("threads", get), ("threading", get), ("processes", get_processes),
                       ("multiprocessing", get_processes), ("sync", get_sync),
                       ("synchronous", get_sync), ("single-threaded", get_sync)):
        dask.base.named_schedulers[name] = ours
