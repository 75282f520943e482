"""A plugin of pytest by which xarray's own tests chunk their arrays by lazyflow.

    PYTHONPATH=tests/helpers pytest -p xarray_by_lazyflow --pyargs xarray.tests.test_rolling
"""

import xarray as xr


def pytest_configure(config):
    xr.set_options(chunk_manager="lazyflow")
