"""Where pickles of before look for what is in `lazyflow.api.lazy` now."""

from lazyflow.api.lazy import Delayed as Delayed
