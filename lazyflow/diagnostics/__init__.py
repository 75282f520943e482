"""What to look at: pictures of task graphs and of their runs."""

from lazyflow.diagnostics.progress import ProgressBar

__all__ = ["ProgressBar"]
