"""Pictures of task graphs: our own SVG up to 500 nodes, graphviz on request.

`layout` says where the boxes stand. The policy: the same nodes give the same bytes; every text
is escaped, and the SVG has no script, no style sheet and no ids, so that many pictures can stand
in one notebook page. It reads plain data and knows nothing of tasks.
"""

import os
import re
import subprocess
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from math import sqrt
from pathlib import Path

from lazyflow.diagnostics.layout import Layout

__all__ = ["Node", "Picture", "draw", "to_svg"]

RANKDIRS = ("TB", "BT", "LR", "RL")
FORMATS = ("svg", "png", "pdf")
ENGINES = ("builtin", "graphviz")
MAX_TASKS = 500

FONT_SIZE = 12
BOX_HEIGHT = 26.0
LABEL_WIDTH = 170.0  # px; a longer label is cut
ROW_GAP = 36.0  # px between rows at least
PART_GAP = 22.0
MARGIN = 14.0

# kind: (fill, border, border width, corner radius); shape and border tell the kinds apart
# without colour, and the explicit fills are readable in a dark notebook too
STYLES = {
    "task": ("#dce9fa", "#3d6cae", 1.0, 5.0),
    "value": ("#f4f0e3", "#a2977a", 1.0, BOX_HEIGHT / 2),
    "output": ("#d8f1de", "#23803f", 2.2, 5.0),
}
BACKGROUND, INK, LINE = "#ffffff", "#17202c", "#6f7b8b"

# what XML cannot hold (controls, surrogates, U+FFFE), and what turns text round (bidi controls)
_UNPRINTABLE = re.compile(
    "[^\t\n\x20-\x7e\xa0-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)


@dataclass(frozen=True, slots=True)
class Node:
    """One box of a picture.

    Attributes
    ----------
    label : str
        What the box says; a long one is cut, and whole in the tooltip.
    inputs : tuple of int
        Indices of earlier nodes; one edge is drawn for each distinct index.
    kind : {"task", "value", "output"}
        A task, a literal or held result, or a task whose value is wanted.
    title : str
        More lines for the tooltip.
    """

    label: str
    inputs: tuple[int, ...]
    kind: str = "task"
    title: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawn graph; as the last value of a notebook cell it shows itself.

    Attributes
    ----------
    data : str or bytes
        The SVG text, or the bytes of another format.
    format : {"svg", "png", "pdf"}
    summary : str
        How many nodes and edges, for the repr.
    filename : str or None
        Where it was written.
    """

    data: str | bytes = field(repr=False)
    format: str = "svg"
    summary: str = ""
    filename: str | None = None

    def __repr__(self) -> str:
        """Say what is drawn and where it went, never the data."""
        size = _count(len(self.data), "character" if isinstance(self.data, str) else "byte")
        where = f", written to {self.filename!r}" if self.filename else ""
        return f"<Picture: {self.summary}, {self.format} of {size}{where}>"

    def _repr_svg_(self) -> str | None:
        return self.data if isinstance(self.data, str) else None

    def _repr_png_(self) -> bytes | None:
        return self.data if isinstance(self.data, bytes) and self.format == "png" else None


def draw(
    nodes: Sequence[Node],
    filename: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,
    engine: str | None = None,
    rankdir: str = "TB",
) -> Picture:
    """Draw a task graph, and write it to a file when one is named.

    Parameters
    ----------
    nodes : sequence of Node
        In topological order.
    filename : str or path, optional
        ``"graph.svg"``, or ``"graph"`` whose ending is then the format.
    format : {"svg", "png", "pdf"}, optional
        The ending of `filename`, else ``"svg"``.
    engine : {"builtin", "graphviz"}, optional
        ``"builtin"`` needs nothing, writes svg and takes up to 500 nodes; ``"graphviz"`` needs
        the package of that name and the program ``dot``. By default svg is built in.
    rankdir : {"TB", "BT", "LR", "RL"}
        Where the edges point: down, up, right or left.

    Raises
    ------
    ValueError
        An unknown option, or too many nodes for the built-in engine.
    ImportError, RuntimeError
        graphviz is needed and its package, or its program, is missing.

    Examples
    --------
    >>> draw([Node("3", (), "value"), Node("inc", (0,), "output")])
    <Picture: 2 nodes, 1 edge, svg of 797 characters>
    """
    path, kind = _target(filename, format)
    if engine is None:
        engine = "builtin" if kind == "svg" else "graphviz"
    _one_of("engine", engine, ENGINES)
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
    summary = f"{_count(len(nodes), 'node')}, {_count(edges, 'edge')}"
    return Picture(data, kind, summary, None if path is None else str(path))


def to_svg(nodes: Sequence[Node], *, rankdir: str = "TB", max_tasks: int = MAX_TASKS) -> str:
    """Return the picture of a task graph as SVG text.

    Each node is ``<g data-node="i">`` with a ``<rect>``, each edge one ``<path data-edge="i j">``
    from the input ``i`` to its user ``j``. Separate parts of the graph are packed side by side
    and in rows. Time is near linear: 500 nodes take a few tenths of a second.

    Raises
    ------
    ValueError
        More than `max_tasks` nodes, an unknown `rankdir` or kind, or an input that is not an
        earlier node.

    Examples
    --------
    >>> to_svg([Node("inc", ())]).count("<rect")
    2
    """
    _one_of("rankdir", rankdir, RANKDIRS)
    _check(nodes)
    if len(nodes) > max_tasks:
        values = sum(node.kind == "value" for node in nodes)
        raise ValueError(
            f"this graph has {_count(len(nodes) - values, 'task')} and {_count(values, 'value')}; "
            f"the built-in drawing takes {max_tasks:,} nodes, as more cannot be read. Visualize "
            "a part of the graph (an intermediate value), or build a smaller graph (fewer chunks "
            "or steps), or give engine='graphviz'"
        )
    if not nodes:
        text = f'<text x="80" y="34" text-anchor="middle" fill="{INK}">empty graph</text>'
        return _document(160, 60, "empty graph", [text])
    parts = [_Part(nodes, members, rankdir) for members in _components(nodes)]
    width, height = _shelve(parts)
    body = [f'<g fill="none" stroke="{LINE}" stroke-width="1.2" stroke-linejoin="round">']
    body += [line for part in parts for line in part.edge_elements()]
    body += ["</g>", f'<g text-anchor="middle" fill="{INK}">']
    body += [line for part in parts for line in part.box_elements(nodes)]
    return _document(width, height, f"task graph of {_count(len(nodes), 'node')}", [*body, "</g>"])


def _one_of(name: str, value: str, possible: Iterable[str]) -> None:
    if value not in tuple(possible):
        raise ValueError(f"{name}={value!r} is not known: give one of {_listed(possible)}")


def _listed(words: Iterable[str]) -> str:
    return ", ".join(map(repr, words))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def _check(nodes: Sequence[Node]) -> None:
    for index, node in enumerate(nodes):
        _one_of(f"nodes[{index}].kind", node.kind, STYLES)
        for source in node.inputs:
            if not 0 <= source < index:
                raise ValueError(
                    f"nodes[{index}] ({node.label!r}) has input {source}, which is no earlier "
                    "node: give the nodes in topological order, inputs first"
                )


def _target(filename: str | os.PathLike[str] | None, format: str | None) -> tuple[Path | None, str]:
    """Return where to write, with its ending, and the format."""
    if format is not None:
        _one_of("format", format, FORMATS)
    if filename is None:
        return None, format or "svg"
    path = Path(filename)
    ending = path.suffix[1:].lower()
    if not path.name:
        raise ValueError(f"filename={str(filename)!r} names no file: give one such as 'graph.svg'")
    if format is None and ending and ending not in FORMATS:
        raise ValueError(
            f"filename={path.name!r} ends in no known format: end it in one of "
            f"{_listed('.' + known for known in FORMATS)}, or give format="
        )
    if format is not None and ending in FORMATS and ending != format:
        raise ValueError(f"filename={path.name!r} and format={format!r} do not agree: drop one")
    kind = format or ending or "svg"
    return path if ending == kind else path.with_name(f"{path.name}.{kind}"), kind


def _by_graphviz(nodes: Sequence[Node], format: str, rankdir: str) -> str | bytes:
    """Draw with the program ``dot``, with the same looks."""
    _one_of("rankdir", rankdir, RANKDIRS)
    _check(nodes)
    instead = "The built-in svg needs neither: give format='svg' and leave engine out"
    try:
        import graphviz
    except ImportError as error:
        raise ImportError(
            f"drawing {format} by graphviz needs the Python package 'graphviz' (pip install "
            f"graphviz) and its program 'dot', and the package is missing. {instead}"
        ) from error
    graph = graphviz.Digraph(
        graph_attr={"rankdir": rankdir, "bgcolor": BACKGROUND},
        node_attr={"shape": "box", "style": "rounded,filled", "fontname": "sans-serif"},
        edge_attr={"color": LINE, "arrowsize": "0.7"},
    )
    for index, node in enumerate(nodes):  # dot reads entities in texts, so & is written as one
        fill, border, width, _ = STYLES[node.kind]
        graph.node(
            str(index),
            graphviz.escape(_fit(_clean(node.label)).replace("&", "&amp;")),
            tooltip=graphviz.escape(_tooltip(node).replace("&", "&amp;")),
            fillcolor=fill,
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
        said = (error.stderr or b"").decode(errors="replace").strip()
        raise RuntimeError(f"the program 'dot' could not draw {format}: {said}") from error
    return data.decode() if format == "svg" else data


# --- text


def _clean(text: str) -> str:
    return _UNPRINTABLE.sub("\ufffd", text)


def _width(text: str) -> float:
    """Estimate the width in px, on the wide side: the reader's font is not known here."""
    em = 0.0
    for char in text:
        if char in "fijlrtI.,:;|!'()[]{} ":
            em += 0.4
        elif unicodedata.east_asian_width(char) in "WF":
            em += 1.05
        elif unicodedata.combining(char):
            continue
        else:
            em += 0.9 if char in "mwMW@%…\ufffd" else 0.72 if char.isupper() else 0.62
    return em * FONT_SIZE


def _fit(text: str) -> str:
    """One line, cut with an ellipsis where it is too long for a box."""
    text = " ".join(text.split())
    if len(text) <= 200 and _width(text) <= LABEL_WIDTH:
        return text
    text = text[:200]
    while _width(text) + FONT_SIZE > LABEL_WIDTH:
        text = text[:-1]
    return text.rstrip() + "…"


def _tooltip(node: Node) -> str:
    text = f"{node.label}\n{node.title}".strip()
    return _clean(text if len(text) <= 2_000 else text[:2_000] + "…")


# --- svg


def _document(width: float, height: float, name: str, body: list[str]) -> str:
    """Wrap the elements; presentation attributes only, as a style sheet would leak into a page."""
    size = f'width="{width:.0f}" height="{height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:.0f} '
            f'{height:.0f}" font-family="sans-serif" font-size="{FONT_SIZE}" role="img" '
            f'aria-label="{name}">',
            f'<rect {size} rx="6" fill="{BACKGROUND}"/>',
            *body,
            "</svg>\n",
        ]
    )


class _Part:
    """One connected part of the graph, laid out, and its place in the picture."""

    def __init__(self, nodes: Sequence[Node], members: list[int], rankdir: str) -> None:
        local = {index: i for i, index in enumerate(members)}
        inputs = [[local[s] for s in dict.fromkeys(nodes[i].inputs)] for i in members]
        self.members = members
        self.labels = [_fit(_clean(nodes[index].label)) for index in members]
        self.widths = [max(40.0, _width(label) + 20) for label in self.labels]
        self.rankdir = rankdir
        self.sideways = rankdir in ("LR", "RL")
        heights = [BOX_HEIGHT] * len(members)
        self.lengths = self.widths if self.sideways else heights  # size along
        self.layout = Layout(inputs, list(heights if self.sideways else self.widths))
        self._place_rows()
        across, sizes = self.layout.across, self.layout.breadth
        self.breadth = max(a + size / 2 for a, size in zip(across, sizes, strict=True))
        for route in self.layout.routes.values():
            reach = max(across[route[0]], across[route[-1]]) + self._bow(*route[:2])
            self.breadth = max(self.breadth, reach)
        self.width, self.height = (
            (self.depth, self.breadth) if self.sideways else (self.breadth, self.depth)
        )
        self.left = self.top = 0.0

    def _place_rows(self) -> None:
        """Stand the rows one after the other, further apart where edges run far across."""
        layout = self.layout
        self.start, self.end, self.depth = [], [], 0.0
        for row in layout.rows:
            self.start.append(self.depth)
            self.end.append(self.depth + max(self.lengths[v] for v in row if v < layout.boxes))
            reach = max(
                (abs(layout.across[v] - layout.across[w]) for v in row for w in layout.down[v]),
                default=0.0,
            )
            self.depth = self.end[-1] + min(max(ROW_GAP, reach / 8), 4 * ROW_GAP)
        self.depth = self.end[-1]

    def _box_span(self, vertex: int) -> tuple[float, float]:
        """Where a box starts and ends along, in the middle of its row."""
        row = self.layout.layer[vertex]
        middle, half = (self.start[row] + self.end[row]) / 2, self.lengths[vertex] / 2
        return middle - half, middle + half

    def _xy(self, across: float, along: float) -> str:
        x, y = self._turn(across, along)
        return f"{x:.1f} {y:.1f}"

    def _turn(self, across: float, along: float) -> tuple[float, float]:
        if self.rankdir in ("BT", "RL"):
            along = self.depth - along
        x, y = (along, across) if self.sideways else (across, along)
        return self.left + x, self.top + y

    def edge_elements(self) -> Iterator[str]:
        """One path for each edge, its arrowhead included."""
        members = self.members
        for (source, target), route in sorted(self.layout.routes.items()):
            path = self._path(route)
            yield f'<path data-edge="{members[source]} {members[target]}" d="{path}"/>'

    def _path(self, route: list[int]) -> str:
        """Straight through each row, an S from row to row, and an arrowhead at the end."""
        layer, places = self.layout.layer, self.layout.across
        here = places[route[0]]
        steps = ["M" + self._xy(here, self._box_span(route[0])[1])]
        for vertex, following in pairwise(route):
            leave, arrive = self.end[layer[vertex]], self.start[layer[following]]
            there = places[following]
            bow = self._bow(vertex, following)
            if bow or abs(there - here) >= 0.05:
                middle = (leave + arrive) / 2
                ends = ((here + bow, middle), (there + bow, middle), (there, arrive))
                steps.append("L" + self._xy(here, leave))
                steps.append("C" + " ".join(self._xy(*point) for point in ends))
            here = there
        tip = self._box_span(route[-1])[0]
        steps.append("L" + self._xy(here, tip))
        steps.append("M" + self._xy(here - 3.5, tip - 6.5))
        steps += ["L" + self._xy(here, tip), "L" + self._xy(here + 3.5, tip - 6.5)]
        return "".join(steps)

    def _bow(self, vertex: int, following: int) -> float:
        """How far an edge without bends bows out of the boxes that it passes behind."""
        layer = self.layout.layer
        if layer[following] - layer[vertex] <= 1:
            return 0.0
        return min(60 + (self.start[layer[following]] - self.end[layer[vertex]]) / 16, 480)

    def box_elements(self, nodes: Sequence[Node]) -> Iterator[str]:
        """One group for each box: tooltip, rectangle, label."""
        for vertex, index in enumerate(self.members):
            start, end = self._box_span(vertex)
            x, y = self._turn(self.layout.across[vertex], (start + end) / 2)
            width = self.widths[vertex]
            fill, border, line, radius = STYLES[nodes[index].kind]
            yield (
                f'<g data-node="{index}"><title>{escape(_tooltip(nodes[index]))}</title>'
                f'<rect x="{x - width / 2:.1f}" y="{y - BOX_HEIGHT / 2:.1f}" width="{width:.1f}" '
                f'height="{BOX_HEIGHT:.0f}" rx="{radius:.0f}" fill="{fill}" stroke="{border}" '
                f'stroke-width="{line:g}"/><text x="{x:.1f}" y="{y + FONT_SIZE * 0.35:.1f}">'
                f"{escape(self.labels[vertex])}</text></g>"
            )


def _components(nodes: Sequence[Node]) -> list[list[int]]:
    """The connected parts, each as its node indices in order."""
    root = list(range(len(nodes)))

    def find(index: int) -> int:
        while root[index] != index:
            root[index] = index = root[root[index]]
        return index

    for index, node in enumerate(nodes):
        for source in node.inputs:
            root[find(source)] = find(index)
    parts: dict[int, list[int]] = {}
    for index in range(len(nodes)):
        parts.setdefault(find(index), []).append(index)
    return list(parts.values())


def _shelve(parts: list[_Part]) -> tuple[float, float]:
    """Stand the parts side by side in rows, deep ones first; return the picture's size."""
    area = sum((part.width + PART_GAP) * (part.height + PART_GAP) for part in parts)
    limit = max(max(part.width for part in parts), sqrt(2 * area)) + MARGIN
    left = top = bottom = MARGIN
    right = 0.0
    for part in sorted(parts, key=lambda part: -part.height):
        if left > MARGIN and left + part.width > limit:
            left, top = MARGIN, bottom + PART_GAP
        part.left, part.top = left, top
        right = max(right, left + part.width)
        bottom = max(bottom, top + part.height)
        left += part.width + PART_GAP
    return right + MARGIN, bottom + MARGIN
