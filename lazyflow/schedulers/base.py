"""The names of `lazyflow.schedulers.core.base`, the page to read to add a scheduler."""

from lazyflow.schedulers.core.base import Observer as Observer
from lazyflow.schedulers.core.base import Request as Request
from lazyflow.schedulers.core.base import Scheduler as Scheduler
from lazyflow.schedulers.core.base import Worker as Worker
