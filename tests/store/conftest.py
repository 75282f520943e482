"""A store for the tests of this folder."""

import pytest
from store_tools import Store

from lazyflow.store.memory.shared import Arenas


@pytest.fixture(scope="module")
def store():
    return Store()


@pytest.fixture
def make():
    """Return a function that makes `Arenas`, which are closed at the end."""
    made = []

    def arenas(*args, **options):
        made.append(Arenas(*args, **{"available": lambda: None, **options}))
        return made[-1]

    yield arenas
    for each in made:
        each.close()
