"""Pictures of task graphs, of arrays and of the progress of runs.

`progress`    `ProgressBar`
`visualize`   the graph of lazy values as a picture: `boxes` of its vertices, `grouped` where they
              are many, their places by `layout`, `svg` text, and files by `drawing`
`array_html`  a chunked array in a notebook
`dashboard/`  a live page
"""

from lazyflow.diagnostics.progress import ProgressBar

__all__ = ["ProgressBar"]
