"""`visualize`: the graph of lazy values as a picture."""

from __future__ import annotations

from typing import Any

from lazyflow.api.targets import Targets
from lazyflow.diagnostics.boxes import Vertex
from lazyflow.diagnostics.drawing import Picture, draw
from lazyflow.graph.passes import make_plan
from lazyflow.graph.task import is_leaf, place_text, task_name
from lazyflow.schedulers.core.errors.failures import call_text, summary

__all__ = ["visualize"]


def visualize(
    *args: Any,
    filename: str | None = None,
    format: str | None = None,
    engine: str | None = None,
    rankdir: str = "TB",
    optimize_graph: bool = True,
) -> Picture:
    """Draw the graph of lazy values.

    Parameters
    ----------
    *args
        Lazy values, or containers of them.
    filename
        Where to write the picture; left out, it is only returned (a notebook shows it).
    format
        ``"svg"``, or with graphviz ``"png"`` or ``"pdf"``; by default the ending of `filename`.
    engine
        ``"builtin"`` draws svg, up to 500 tasks; ``"graphviz"`` needs that package and its program.
    rankdir
        The direction of the edges: ``"TB"``, ``"BT"``, ``"LR"`` or ``"RL"`` (T: top, L: left).
    optimize_graph
        False: the graph as it was written, without merging equal pure tasks.

    Raises
    ------
    ValueError
        Too many tasks for a picture, or an unknown option; the message says what to do.

    Examples
    --------
    >>> from lazyflow import delayed, visualize
    >>> x = delayed(abs)(-1) + delayed(abs)(-2)
    >>> "<svg" in visualize(x)._repr_svg_()
    True
    """
    targets = Targets(args, traverse=True)
    plan = make_plan(targets.tasks, optimize_graph)
    outputs = set(plan.outputs)
    nodes = []
    for i, (task, inputs) in enumerate(zip(plan.tasks, plan.inputs, strict=True)):
        if is_leaf(task):
            value = task._args[0]
            kind, text = "value", getattr(value, "name", None) or summary(value)
            label = task_name(task) if task._options.named else text
        else:
            kind, text = "task", call_text(task, list(task._inputs))
            label = task_name(task)
        if i in outputs:
            kind = "output"
        title = f"{text}\nmade at {place_text(task)}"
        nodes.append(Vertex(label, tuple(dict.fromkeys(inputs or ())), kind, title))
    return draw(nodes, filename, format=format, engine=engine, rankdir=rankdir)
