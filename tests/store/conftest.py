"""A store for the tests of this folder."""

import pytest
from store_tools import Store


@pytest.fixture(scope="module")
def store():
    return Store()
