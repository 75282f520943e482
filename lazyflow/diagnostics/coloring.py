"""The colours of drawn tasks: by function, by order, by the time that they took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from colorsys import hls_to_rgb
from dataclasses import replace
from math import log
from typing import TYPE_CHECKING

from lazyflow.diagnostics.boxes import Vertex, count
from lazyflow.diagnostics.profiling.texts import seconds, shown, shown_end

if TYPE_CHECKING:
    from lazyflow.diagnostics.profiling.recorder import Profile

__all__ = ["by_function", "by_order", "by_time"]

_GOLDEN = 0.618034  # of a circle of hues between one and the next: neighbours are told apart
_RED, _YELLOW, _GREEN, _BLUE = 0.0, 0.15, 0.35, 0.62  # hues
_RANGE = 1_000.0  # times below the longest by this factor are all green


def by_function(vertices: Sequence[Vertex]) -> list[Vertex]:
    """Return vertices whose hue is that of their function, far from the hue of the one before.

    Examples
    --------
    >>> one, other = by_function([Vertex("load", ()), Vertex("clean", (0,))])
    >>> one.fill == other.fill
    False
    """
    number = {label: i for i, label in enumerate(dict.fromkeys(v.label for v in vertices))}
    return [
        v if v.kind == "value" else replace(v, fill=_light(number[v.label] * _GOLDEN % 1.0))
        for v in vertices
    ]


def by_order(vertices: Sequence[Vertex]) -> list[Vertex]:
    """Return vertices from yellow to blue, with their place in the tooltip.

    Examples
    --------
    >>> by_order([Vertex("load", ()), Vertex("clean", (0,))])[1].title
    'task 2 of 2\\n'
    """
    tasks = [i for i, vertex in enumerate(vertices) if vertex.kind != "value"]
    found = list(vertices)
    for place, i in enumerate(tasks):
        hue = _YELLOW + (_BLUE - _YELLOW) * place / max(len(tasks) - 1, 1)
        title = f"task {place + 1:,} of {len(tasks):,}\n{found[i].title}"
        found[i] = replace(found[i], title=title, fill=_light(hue))
    return found


def by_time(
    vertices: Sequence[Vertex], keys: Sequence[tuple[str, str]], profile: Profile
) -> list[Vertex]:
    """Return vertices from green to red by the mean time of their calls, on a logarithmic scale.

    `keys` has the name and the line of each. What was not called keeps its colour.

    Examples
    --------
    >>> import lazyflow
    >>> with lazyflow.profile() as p:
    ...     pass
    >>> by_time([Vertex("load", ())], [("load", "a.py:1")], p)[0].fill
    ''
    """
    times: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for task in profile.tasks:
        times[task.name, task.place].append(task.seconds)
    means = {key: max(sum(each) / len(each), 1e-9) for key, each in times.items()}
    longest = max(means.values(), default=1.0)
    found = []
    for vertex, (name, line) in zip(vertices, keys, strict=True):
        key = shown(name), shown_end(line)
        if vertex.kind != "value" and key in means:
            share = min(log(longest / means[key]) / log(_RANGE), 1.0)
            title = f"{seconds(means[key])} on average of {count(len(times[key]), 'call')}"
            vertex = replace(
                vertex, title=f"{title}\n{vertex.title}",
                fill=_light(_RED + (_GREEN - _RED) * share),
            )
        found.append(vertex)
    return found


def _light(hue: float) -> str:
    """Return a colour on which dark text can be read."""
    rgb = hls_to_rgb(hue, 0.82, 0.75)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)
