"""`visualize`: the graph of lazy values as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lazyflow.api.targets import Targets
from lazyflow.diagnostics.boxes import Vertex, one_of
from lazyflow.diagnostics.coloring import by_function, by_order, by_time
from lazyflow.diagnostics.drawing import Picture, draw
from lazyflow.diagnostics.grouped import grouped
from lazyflow.diagnostics.svg import MAX_TASKS
from lazyflow.graph.passes import make_plan
from lazyflow.graph.task import Task, is_leaf, place_text, task_name
from lazyflow.schedulers.core.errors.words import call_text, call_words, leaf_text, on_pages

if TYPE_CHECKING:
    from lazyflow.diagnostics.profiling.recorder import Profile

__all__ = ["visualize"]

_GROUPS = 100  # boxes of a grouped picture: more are not read


def visualize(
    *args: Any,
    filename: str | None = None,
    format: str | None = None,
    engine: str | None = None,
    rankdir: str = "TB",
    optimize_graph: bool = False,
    color: str | None = None,
    profile: Profile | None = None,
) -> Picture:
    """Draw the graph of lazy values; of more than 500 tasks those that do the same share a box.

    Arguments are shown by type and shape, with ``config.set(show_values="scalars")`` by value.

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
        True: the graph as it would run, with equal pure tasks merged; else as it was written.
    color
        ``"function"``: a colour for each function; ``"order"``: from yellow, what one worker would
        run first, to blue; ``"time"``: from green to red by the time that calls took in `profile`.
        Left out, tasks, values and outputs differ.
    profile
        What `lazyflow.profile` recorded of such tasks: calls of the same name from the same line.

    Raises
    ------
    ValueError
        An unknown option; the message says which there are. Or a color without its profile.
    TypeError
        Nothing lazy, or a text, which may be meant as `filename`.

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
        one_of("color", color, ("function", "order", "time"))
    if (color == "time") != (profile is not None):
        raise ValueError(
            "color='time' and profile= come together: with lazyflow.profile() as p: "
            "compute(...), then visualize(..., color='time', profile=p)"
        )
    targets = Targets(args, traverse=True)
    for given in args:
        if isinstance(given, str):
            raise TypeError(
                f"{given!r:.100} is no lazy value. To write the picture to a file of that name "
                f"type: visualize(..., filename={given!r:.100})"
            )
    if not targets.tasks:
        raise TypeError(
            f"visualize({', '.join(call_words(list(args), {}))}) has no graph to draw: nothing of "
            "that is lazy. Type: visualize(delayed(f)(x)), without compute()"
        )
    plan = make_plan(targets.tasks, optimize_graph)
    outputs = set(plan.outputs)
    vertices = [
        _vertex(task, inputs, i in outputs)
        for i, (task, inputs) in enumerate(zip(plan.tasks, plan.inputs, strict=True))
    ]
    if color == "function":
        vertices = by_function(vertices)
    elif color == "order":
        vertices = by_order(vertices)
    elif profile is not None:
        keys = [(task_name(task), place_text(task)) for task in plan.tasks]
        vertices = by_time(vertices, keys, profile)
    if len(vertices) > MAX_TASKS and engine != "graphviz":
        vertices = grouped(vertices, _GROUPS)
    return draw(vertices, filename, format=format, engine=engine, rankdir=rankdir)


def _vertex(task: Task, inputs: Sequence[int] | None, is_output: bool) -> Vertex:
    if is_leaf(task):
        name = getattr(task._args[0], "name", None)
        kind, text = "value", name or leaf_text(task, on_pages())
        label = task_name(task) if task._options.named else text
    else:
        kind, text = "task", call_text(task, list(task._inputs), on_pages())
        label = task_name(task)
    title = f"{text}\nmade at {place_text(task)}"
    return Vertex(label, tuple(dict.fromkeys(inputs or ())), "output" if is_output else kind, title)
