"""`ActorPool`: work given to whichever of several actors is free."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any

from lazyflow.actors import Actor
from lazyflow.futures import Future

__all__ = ["ActorPool"]
