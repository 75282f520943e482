"""The schedulers that this process has made, by name; in a worker it is itself "processes"."""

from __future__ import annotations

from lazyflow.schedulers.core.base import Scheduler

installed: dict[str, Scheduler] = {}
