"""Pictures of task graphs and of arrays; the progress of runs, and where their time goes.

The modules::

    progress    ProgressBar
    visualize   the graph of lazy values as a picture: boxes of its vertices, their coloring,
                grouped where they are many, their places by layout, svg text, and files by
                drawing
    array_html  a chunked array in a notebook
    profiling/  profile: what ran where and when, as a table, a timeline and advice
    dashboard/  the same while it goes on
"""

from lazyflow.diagnostics.profiling.recorder import Profile, profile
from lazyflow.diagnostics.progress import ProgressBar

__all__ = ["Profile", "ProgressBar", "profile"]
