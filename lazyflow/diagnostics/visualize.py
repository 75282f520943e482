"""`visualize`: the graph of lazy values as a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from colorsys import hls_to_rgb
from dataclasses import replace
from typing import Any

from lazyflow.api.targets import Targets
from lazyflow.diagnostics.boxes import Vertex, one_of
from lazyflow.diagnostics.drawing import Picture, draw
from lazyflow.diagnostics.grouped import grouped
from lazyflow.diagnostics.svg import MAX_TASKS
from lazyflow.graph.passes import make_plan
from lazyflow.graph.task import Task, is_leaf, place_text, task_name
from lazyflow.schedulers.core.errors.failures import call_text, summary

__all__ = ["visualize"]

_GROUPS = 100  # boxes of a grouped picture: more are not read
_GOLDEN = 0.618034  # of a circle of hues between one and the next: neighbours are told apart
_YELLOW, _BLUE = 0.15, 0.62  # hues


def visualize(
    *args: Any,
    filename: str | None = None,
    format: str | None = None,
    engine: str | None = None,
    rankdir: str = "TB",
    optimize_graph: bool = True,
    color: str | None = None,
) -> Picture:
    """Draw the graph of lazy values; of more than 500 tasks those that do the same share a box.

    Parameters
    ----------
    *args
        Lazy values, or containers of them.
    filename
        Where to write the picture; left out, it is only returned (a notebook shows it).
    format
        ``"svg"``, or with graphviz ``"png"`` or ``"pdf"``; by default the ending of `filename`.
    engine
        ``"builtin"`` draws svg; ``"graphviz"`` needs that package and its program, and draws each
        task of any number.
    rankdir
        The direction of the edges: ``"TB"``, ``"BT"``, ``"LR"`` or ``"RL"`` (T: top, L: left).
    optimize_graph
        False: the graph as it was written, without merging equal pure tasks.
    color
        ``"function"``: a colour for each function; ``"order"``: from yellow, what one worker would
        run first, to blue. Left out, tasks, values and outputs differ.

    Raises
    ------
    ValueError
        An unknown option; the message says which there are.

    Examples
    --------
    >>> from lazyflow import delayed, visualize
    >>> x = delayed(abs)(-1) + delayed(abs)(-2)
    >>> "<svg" in visualize(x)._repr_svg_()
    True
    >>> visualize([delayed(abs)(x) for _ in range(1000)], color="function").summary
    '3 nodes, 2 edges'
    """
    if color is not None:
        one_of("color", color, _COLORS)
    targets = Targets(args, traverse=True)
    plan = make_plan(targets.tasks, optimize_graph)
    outputs = set(plan.outputs)
    vertices = [
        _vertex(task, inputs, i in outputs)
        for i, (task, inputs) in enumerate(zip(plan.tasks, plan.inputs, strict=True))
    ]
    if color is not None:
        vertices = _COLORS[color](vertices)
    if len(vertices) > MAX_TASKS and engine != "graphviz":
        vertices = grouped(vertices, _GROUPS)
    return draw(vertices, filename, format=format, engine=engine, rankdir=rankdir)


def _vertex(task: Task, inputs: Sequence[int] | None, is_output: bool) -> Vertex:
    if is_leaf(task):
        value = task._args[0]
        kind, text = "value", getattr(value, "name", None) or summary(value)
        label = task_name(task) if task._options.named else text
    else:
        kind, text = "task", call_text(task, list(task._inputs))
        label = task_name(task)
    title = f"{text}\nmade at {place_text(task)}"
    return Vertex(label, tuple(dict.fromkeys(inputs or ())), "output" if is_output else kind, title)


def _by_function(vertices: Sequence[Vertex]) -> list[Vertex]:
    """Return vertices whose hue is that of their function, far from the hue of the one before."""
    number = {label: i for i, label in enumerate(dict.fromkeys(v.label for v in vertices))}
    return [
        v if v.kind == "value" else replace(v, fill=_light(number[v.label] * _GOLDEN % 1.0))
        for v in vertices
    ]


def _by_order(vertices: Sequence[Vertex]) -> list[Vertex]:
    """Return vertices from yellow to blue, with their place in the tooltip."""
    tasks = [i for i, vertex in enumerate(vertices) if vertex.kind != "value"]
    found = list(vertices)
    for place, i in enumerate(tasks):
        hue = _YELLOW + (_BLUE - _YELLOW) * place / max(len(tasks) - 1, 1)
        title = f"task {place + 1:,} of {len(tasks):,}\n{found[i].title}"
        found[i] = replace(found[i], title=title, fill=_light(hue))
    return found


def _light(hue: float) -> str:
    """Return a colour on which dark text can be read."""
    rgb = hls_to_rgb(hue, 0.82, 0.75)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)


_COLORS: dict[str, Callable[[Sequence[Vertex]], list[Vertex]]] = {
    "function": _by_function, "order": _by_order,
}
