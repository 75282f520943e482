"""The five schedulers as parameters of tests: those that need an engine are skipped without it.

Ray takes seconds to begin and to end, so what runs there is slow.
"""

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
