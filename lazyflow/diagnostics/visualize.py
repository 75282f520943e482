"""`visualize`: the graph of lazy values as a picture::

    lazy values --> plan --> [Vertex] (boxes.py) --> colours --> grouped, above 500 --> svg

A `Vertex` is plain data: label, inputs, kind, tooltip, colour. Each step takes and returns a list
of them, so it can be tested without a picture. Arguments are shown by type and shape, unless
``config.set(show_values="scalars")``.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from colorsys import hls_to_rgb
from dataclasses import dataclass, field, replace
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazyflow.api.evaluate import Targets
from lazyflow.diagnostics import boxes
from lazyflow.diagnostics.boxes import Vertex, count, one_of
from lazyflow.diagnostics.profiling.texts import seconds, shown, shown_end
from lazyflow.diagnostics.svg import MAX_TASKS, to_svg
from lazyflow.graph.plan import make_plan
from lazyflow.graph.task import Task, is_leaf, place_text, task_name
from lazyflow.schedulers.core.errors.words import call_text, call_words, leaf_text, on_pages

if TYPE_CHECKING:
    from lazyflow.diagnostics.profiling.recorder import Profile

# -- the colours of drawn tasks: by function, by order, by the time that they took --------

_GOLDEN = 0.618034  # of a circle of hues between one and the next: neighbours are told apart
_RED, _YELLOW, _GREEN, _BLUE = 0.0, 0.15, 0.35, 0.62  # hues
_RANGE = 1_000.0  # times below the longest by this factor are all green; a guess


def by_function(vertices: Sequence[Vertex]) -> list[Vertex]:
    """Return vertices with one hue per function; neighbouring functions have distant hues.

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

    `keys` has the name and the line of each. Vertices that were not called keep their colour.

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
    drawn = []
    for vertex, (name, line) in zip(vertices, keys, strict=True):
        key = shown(name), shown_end(line)
        if vertex.kind != "value" and key in means:
            share = min(log(longest / means[key]) / log(_RANGE), 1.0)
            title = f"{seconds(means[key])} on average of {count(len(times[key]), 'call')}"
            vertex = replace(
                vertex, title=f"{title}\n{vertex.title}",
                fill=_light(_RED + (_GREEN - _RED) * share),
            )
        drawn.append(vertex)
    return drawn


def _light(hue: float) -> str:
    """Return a colour on which dark text can be read."""
    rgb = hls_to_rgb(hue, 0.82, 0.75)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)


# -- graphs that are too large to be drawn task by task: boxes of tasks that do the same --

_NAMED = 12  # functions that the label and the tooltip of a box list


def grouped(nodes: Sequence[Vertex], most: int) -> list[Vertex]:
    """Return at most `most` vertices, each for all nodes of one function at one depth.

    Nodes form a group if they have the same label, the same kind, and inputs in the same groups:
    the chunks of an array expression, the levels of a tree. If there are still too many groups (a
    long chain), all nodes with one label form a group. Labels that lead to each other in a circle
    share a box, and so do the rarest labels if there are more than `most`.

    Examples
    --------
    >>> nodes = [Vertex("load", ())] * 4 + [Vertex("total", (0, 1, 2, 3), "output")]
    >>> [(vertex.label, vertex.inputs) for vertex in grouped(nodes, 3)]
    [('4 × load', ()), ('total', (0,))]
    """
    groups = _by_structure(nodes)
    if max(groups, default=-1) >= most:
        groups = _in_order(nodes, _without_circles(nodes, _by_label(nodes, most)))
    return _vertices(nodes, groups)


def _by_structure(nodes: Sequence[Vertex]) -> list[int]:
    """Return the group of each node; equal ones have inputs in equal groups."""
    known: dict[Hashable, int] = {}
    groups: list[int] = []
    for node in nodes:
        label = "" if node.kind == "value" else node.label
        key = node.kind, label, frozenset(groups[source] for source in node.inputs)
        groups.append(known.setdefault(key, len(known)))
    return groups


def _by_label(nodes: Sequence[Vertex], most: int) -> list[int]:
    """Return the group of each node by its label; the rarest labels are one group."""
    often = Counter(node.label for node in nodes if node.kind != "value")
    kept = {label: i for i, (label, _) in enumerate(often.most_common(most - 2), 2)}
    return [0 if node.kind == "value" else kept.get(node.label, 1) for node in nodes]


def _without_circles(nodes: Sequence[Vertex], groups: list[int]) -> list[int]:
    """Return groups of which none leads back to itself: those in a circle become one."""
    import numpy as np
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    pairs = {
        (groups[source], group)
        for node, group in zip(nodes, groups, strict=True) for source in node.inputs
    }
    size = max(groups) + 1
    rows, columns = np.array([*pairs, (0, 0)]).T
    edges = csr_array((np.ones(len(rows)), (rows, columns)), (size, size))
    circles = connected_components(edges, connection="strong")[1].tolist()
    return [circles[group] for group in groups]


def _in_order(nodes: Sequence[Vertex], groups: list[int]) -> list[int]:
    """Number groups so that inputs have smaller numbers."""
    inputs: dict[int, set[int]] = {group: set() for group in dict.fromkeys(groups)}
    for node, group in zip(nodes, groups, strict=True):
        inputs[group].update(groups[source] for source in node.inputs)
    number: dict[int, int] = {}
    stack = list(reversed(inputs))
    while stack:
        group = stack.pop()
        missing = inputs[group] - number.keys() - {group}
        if group not in number:
            if missing:
                stack += [group, *missing]
            else:
                number[group] = len(number)
    return [number[group] for group in groups]


def _vertices(nodes: Sequence[Vertex], groups: list[int]) -> list[Vertex]:
    members: list[list[Vertex]] = [[] for _ in range(max(groups, default=-1) + 1)]
    inputs: list[dict[int, None]] = [{} for _ in members]
    for node, group in zip(nodes, groups, strict=True):
        members[group].append(node)
        for source in node.inputs:
            if groups[source] != group:
                inputs[group][groups[source]] = None
    return [
        _box_of_several(group, tuple(sources))
        for group, sources in zip(members, inputs, strict=True)
    ]


def _box_of_several(nodes: list[Vertex], inputs: tuple[int, ...]) -> Vertex:
    """Return one box for several nodes: their name, their number, and the first one's tooltip."""
    kinds = {node.kind for node in nodes}
    kind = "output" if "output" in kinds else "value" if kinds == {"value"} else "task"
    if len(nodes) == 1:
        return replace(nodes[0], inputs=inputs)
    often = Counter(node.label for node in nodes).most_common()
    if kind == "value" and len(often) > 1:
        label = count(len(nodes), "value")
    else:
        names = ", ".join(label for label, _ in often[:_NAMED])
        label = f"{len(nodes):,} × {names}{', …' if len(often) > _NAMED else ''}"
    lines = [f"{times:,} × {label}" for label, times in often[:_NAMED]] if often[1:] else []
    title = "\n".join([*lines, "the first: " + nodes[0].title])
    return Vertex(label, inputs, kind, title, nodes[0].fill)


# -- pictures of task graphs: as SVG of our own, or by graphviz ---------------------------


FORMATS = ("svg", "png", "pdf")
ENGINES = ("builtin", "graphviz")


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawn graph; as the last value of a notebook cell it shows itself.

    Attributes
    ----------
    data : str or bytes
        The SVG text, or the bytes of another format.
    format : {"svg", "png", "pdf"}
    summary : str
        The numbers of nodes and edges, for the repr.
    filename : str or None
        The file that was written.
    """

    data: str | bytes = field(repr=False)
    format: str = "svg"
    summary: str = ""
    filename: str | None = None

    def __repr__(self) -> str:
        """Describe the picture and its file, never the data."""
        size = boxes.count(len(self.data), "character" if isinstance(self.data, str) else "byte")
        where = f", written to {self.filename!r}" if self.filename else ""
        return f"<Picture: {self.summary}, {self.format} of {size}{where}>"

    def _repr_svg_(self) -> str | None:
        return self.data if isinstance(self.data, str) else None

    def _repr_png_(self) -> bytes | None:
        return self.data if isinstance(self.data, bytes) and self.format == "png" else None


def draw(
    nodes: Sequence[Vertex],
    filename: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,
    engine: str | None = None,
    rankdir: str = "TB",
) -> Picture:
    """Draw a task graph, and write it to a file when one is named.

    Parameters
    ----------
    nodes : sequence of Vertex
        In topological order.
    filename : str or path, optional
        ``"graph.svg"``, or ``"graph"``, to which the format is appended as ending.
    format : {"svg", "png", "pdf"}, optional
        The ending of `filename`, else ``"svg"``.
    engine : {"builtin", "graphviz"}, optional
        ``"builtin"`` needs no other package, writes svg and takes up to 500 nodes; ``"graphviz"``
        needs the package of that name and the program ``dot``. The default for svg is
        ``"builtin"``.
    rankdir : {"TB", "BT", "LR", "RL"}
        The direction of the edges: down, up, right or left.

    Raises
    ------
    ValueError
        An unknown option, or too many nodes for the built-in engine.
    ImportError, RuntimeError
        graphviz is needed and its package, or its program, is missing.

    Examples
    --------
    >>> draw([Vertex("3", (), "value"), Vertex("inc", (0,), "output")])
    <Picture: 2 nodes, 1 edge, svg of 797 characters>
    """
    path, kind = _target(filename, format)
    if engine is None:
        engine = "builtin" if kind == "svg" else "graphviz"
    boxes.one_of("engine", engine, ENGINES)
    if engine == "builtin" and kind != "svg":
        raise ValueError(
            f"engine='builtin' writes svg, not {kind}: leave engine out, or give format='svg'"
        )
    data: str | bytes
    if engine == "builtin":
        data = to_svg(nodes, rankdir=rankdir)
    else:
        data = _by_graphviz(nodes, kind, rankdir)
    if path is not None:
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    edges = sum(len(set(node.inputs)) for node in nodes)
    summary = f"{boxes.count(len(nodes), 'node')}, {boxes.count(edges, 'edge')}"
    return Picture(data, kind, summary, None if path is None else str(path))


def _target(filename: str | os.PathLike[str] | None, format: str | None) -> tuple[Path | None, str]:
    """Return where to write, with its ending, and the format."""
    if format is not None:
        boxes.one_of("format", format, FORMATS)
    if filename is None:
        return None, format or "svg"
    path = Path(filename)
    ending = path.suffix[1:].lower()
    if not path.name:
        raise ValueError(f"filename={str(filename)!r} names no file: give one such as 'graph.svg'")
    if format is None and ending and ending not in FORMATS:
        raise ValueError(
            f"filename={path.name!r} ends in no known format: end it in one of "
            f"{boxes.listed('.' + known for known in FORMATS)}, or give format="
        )
    if format is not None and ending in FORMATS and ending != format:
        raise ValueError(f"filename={path.name!r} and format={format!r} do not agree: drop one")
    kind = format or ending or "svg"
    return path if ending == kind else path.with_name(f"{path.name}.{kind}"), kind


def _by_graphviz(nodes: Sequence[Vertex], format: str, rankdir: str) -> str | bytes:
    """Draw with the program ``dot``, with the same looks."""
    boxes.one_of("rankdir", rankdir, boxes.RANKDIRS)
    boxes.check(nodes)
    instead = "The built-in svg needs neither: give format='svg' and leave engine out"
    try:
        import graphviz
    except ImportError as error:
        raise ImportError(
            f"drawing {format} by graphviz needs the Python package 'graphviz' (pip install "
            f"graphviz) and its program 'dot', and the package is missing. {instead}"
        ) from error
    graph = graphviz.Digraph(
        graph_attr={"rankdir": rankdir, "bgcolor": boxes.BACKGROUND},
        node_attr={"shape": "box", "style": "rounded,filled", "fontname": "sans-serif"},
        edge_attr={"color": boxes.LINE, "arrowsize": "0.7"},
    )
    for index, node in enumerate(nodes):  # dot reads entities in texts, so & is written as one
        fill, border, width, _ = boxes.STYLES[node.kind]
        graph.node(
            str(index),
            graphviz.escape(boxes.label_of(node).replace("&", "&amp;")),
            tooltip=graphviz.escape(boxes.tooltip(node).replace("&", "&amp;")),
            fillcolor=node.fill or fill,
            color=border,
            penwidth=str(width),
        )
        graph.edges((str(source), str(index)) for source in dict.fromkeys(node.inputs))
    try:
        data: bytes = graph.pipe(format=format, quiet=True)
    except graphviz.ExecutableNotFound as error:
        raise RuntimeError(
            f"drawing {format} by graphviz needs the program 'dot', and it is not on the PATH: "
            f"install your system's graphviz package. {instead}"
        ) from error
    except subprocess.CalledProcessError as error:
        message = (error.stderr or b"").decode(errors="replace").strip()
        raise RuntimeError(f"the program 'dot' could not draw {format}: {message}") from error
    return data.decode() if format == "svg" else data


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
    """Draw the graph of lazy values; above 500 tasks, tasks that do the same share a box.

    Arguments are shown by type and shape; with ``config.set(show_values="scalars")``, by value.

    Parameters
    ----------
    *args
        Lazy values, or containers of them.
    filename
        The file to write; by default the picture is only returned (a notebook shows it).
    format
        ``"svg"``, or with graphviz ``"png"`` or ``"pdf"``; by default the ending of `filename`.
    engine
        ``"builtin"`` draws svg; ``"graphviz"`` needs that package and its program, and draws every
        task, however many there are.
    rankdir
        The direction of the edges: ``"TB"``, ``"BT"``, ``"LR"`` or ``"RL"`` (T: top, L: left).
    optimize_graph
        True: the graph as it would run, with equal pure tasks merged; False: as it was written.
    color
        ``"function"``: a colour for each function; ``"order"``: the order of running on one worker,
        from yellow to blue; ``"time"``: from green to red by the time that calls took in `profile`.
        By default tasks, values and outputs have different colours.
    profile
        A recording by `lazyflow.profile` of such tasks: calls with the same name and line.

    Raises
    ------
    ValueError
        An unknown option (the message lists the known ones), or a color without its profile.
    TypeError
        No lazy value, or a string, which may be meant as `filename`.

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
