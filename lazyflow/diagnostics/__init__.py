"""Pictures of task graphs, of arrays, and of runs.

`progress`    `ProgressBar`
`visualize`   the graph of lazy values as a picture: `boxes` of its vertices, their `coloring`,
              `grouped` where they are many, their places by `layout`, `svg` text, and files by
              `drawing`
`array_html`  a chunked array in a notebook
`profiling/`  what ran where and when: `profile`
`dashboard/`  the same while it goes on
"""

from lazyflow.diagnostics.progress import ProgressBar

__all__ = ["ProgressBar"]
