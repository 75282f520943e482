"""What runs plans. `base` is the page to read to add a scheduler."""

from lazyflow.schedulers.registry import info

__all__ = ["info"]
