"""Pictures of task graphs and arrays, the progress of runs, and profiles.

The modules::

    progress    ProgressBar
    visualize   the graph of lazy values as a picture: boxes of its vertices, their coloring,
                  grouped if there are many, their places by layout, svg text, and files by
                  drawing
    array_html  a chunked array in a notebook
    profiling/  profile: records what runs where and when, as a table, a timeline and advice
    dashboard/  the same, live
"""

from lazyflow.diagnostics.profiling.recorder import Profile, profile
from lazyflow.diagnostics.progress import ProgressBar

__all__ = ["Profile", "ProgressBar", "profile"]
