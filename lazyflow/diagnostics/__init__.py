"""Pictures of task graphs and arrays, the progress of runs, and profiles.

The modules::

    progress    ProgressBar
    boxes       the vertices of a graph as plain data
    svg         their places, and the picture as text
    visualize   the graph of lazy values as a picture: colored, grouped if there are many, as files
    array_html  a chunked array in a notebook
    profiling/  profile: records what runs where and when, as a table, a timeline and advice
    dashboard/  the same, live
    environment versions, limits and settings as text, for bug reports
"""

from lazyflow.diagnostics.environment import environment
from lazyflow.diagnostics.profiling.recorder import Profile, profile
from lazyflow.diagnostics.progress import ProgressBar

__all__ = ["Profile", "ProgressBar", "environment", "profile"]
