"""Pictures of task graphs: our own SVG up to 500 nodes, graphviz on request.

The layout is the layered one of Sugiyama, Tagawa and Toda (1981): longest-path layers, one bend
per crossed layer on long edges, barycentre sweeps against crossings, then coordinates that pull
connected boxes over each other. The policy: an edge bends only between rows, and a long edge has
a lane of its own through each row, so that no edge runs through a box; the same nodes give the
same bytes; every text is escaped, and the SVG has no script, no style sheet and no ids, so that
many pictures can stand in one notebook page. It reads plain data and knows nothing of tasks.
"""

import os
import re
import subprocess
import unicodedata
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate, cycle, pairwise
from math import inf, isqrt, sqrt
from pathlib import Path

__all__ = ["Node", "Picture", "draw", "to_svg"]

RANKDIRS = ("TB", "BT", "LR", "RL")
FORMATS = ("svg", "png", "pdf")
ENGINES = ("builtin", "graphviz")
MAX_TASKS = 500

FONT_SIZE = 12
BOX_HEIGHT = 26.0
LABEL_WIDTH = 170.0  # px; a longer label is cut
BOX_GAP = 16.0  # px between neighbours of a row; lanes of edges stand closer
LANE_GAP = 9.0
WIDEST = 2_400.0  # px; the boxes of a wider row are staggered
ROW_GAP = 36.0  # px between rows at least
PART_GAP = 22.0
MARGIN = 14.0
SWEEPS = 16
SETTLE = 8
MAX_BENDS = 5_000  # reached only by hundreds of rows that are crossed by dozens of edges

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
        self.layout = _Layout(inputs, list(heights if self.sideways else self.widths))
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


# --- layout


class _Layout:
    """Vertices (boxes, then bends of long edges) in rows, and their places across.

    Directions are "across" (along a row) and "along" (from row to row); `rankdir` turns them
    into x and y at the very end.
    """

    def __init__(self, inputs: list[list[int]], breadth: list[float]) -> None:
        self.boxes = len(inputs)
        self.breadth = breadth  # size across; a bend has none
        self.layer = _layers(inputs)
        self.lane = list(range(self.boxes))  # the bends of one lane share a number
        self.routes = self._route([(u, v) for v, sources in enumerate(inputs) for u in sources])
        self.up, self.down = self._links()
        self.rows = _order(self.layer, self.up, self.down)
        self._stagger()
        self.gaps = [[self._gap(*pair) for pair in pairwise(row)] for row in self.rows]
        self.across = self._place()
        self._straighten()
        least = min(a - size / 2 for a, size in zip(self.across, self.breadth, strict=True))
        self.across = [a - least for a in self.across]

    def _route(self, edges: list[tuple[int, int]]) -> dict[tuple[int, int], list[int]]:
        """Give each edge its vertices, with a bend in each row that it crosses.

        Long edges from one source, or into one target (whichever has more), share a lane: less
        ink, and no doubt where they lead. Where that makes more than `MAX_BENDS` bends the
        longest edges stay one curve, which bows out to the side.
        """
        layer = self.layer
        leaving, entering = [0] * self.boxes, [0] * self.boxes
        for u, v in edges:
            leaving[u] += layer[v] - layer[u] > 1
            entering[v] += layer[v] - layer[u] > 1
        limit = max(layer)
        while True:
            spans: dict[int, tuple[int, int]] = {}  # lane: first and last row of its bends
            lane_of = {}
            for u, v in edges:
                if 1 < layer[v] - layer[u] <= limit:
                    lane = lane_of[u, v] = u if leaving[u] >= entering[v] else v + self.boxes
                    first, last = spans.get(lane, (self.boxes, 0))
                    spans[lane] = min(first, layer[u] + 1), max(last, layer[v] - 1)
            if sum(last - first + 1 for first, last in spans.values()) <= MAX_BENDS:
                break
            limit //= 2
        bend_at = {}  # lane: the vertex that its bend in row 0 would be
        for lane, (first, last) in spans.items():
            bend_at[lane] = len(layer) - first
            layer += range(first, last + 1)
            self.lane += [lane + self.boxes] * (last - first + 1)
        self.breadth += [0.0] * (len(layer) - self.boxes)
        routes = {}
        for u, v in edges:
            rows = range(layer[u] + 1, layer[v]) if (u, v) in lane_of else ()
            routes[u, v] = [u, *(bend_at[lane_of[u, v]] + row for row in rows), v]
        return routes

    def _links(self) -> tuple[list[list[int]], list[list[int]]]:
        """Neighbours of each vertex in the row above, and in the row below."""
        up: list[list[int]] = [[] for _ in self.layer]
        down: list[list[int]] = [[] for _ in self.layer]
        for upper, lower in sorted({link for r in self.routes.values() for link in pairwise(r)}):
            if self.layer[lower] - self.layer[upper] == 1:  # all but those beyond MAX_BENDS
                down[upper].append(lower)
                up[lower].append(upper)
        return up, down

    def _stagger(self) -> None:
        """Stand the boxes of each very wide row in several rows, in turns.

        A box then has a column: lanes for its edges through the rows above and below it, so
        that order and crossings stay what they were.
        """
        rows: list[list[int]] = []
        columns: dict[int, list[int]] = {}
        for row in self.rows:
            boxes = [vertex for vertex in row if vertex < self.boxes]
            turns = 1
            if sum(self.breadth[box] + BOX_GAP for box in boxes) > WIDEST:
                turns = max(2, isqrt(len(boxes) // 4))
            home = dict(zip(boxes, cycle(range(turns)), strict=False))
            split: list[list[int]] = [[] for _ in range(turns)]
            for vertex in row:
                own = home.get(vertex, 0)
                first = own if vertex < self.boxes and not self.up[vertex] else 0
                last = own if vertex < self.boxes and not self.down[vertex] else turns - 1
                columns[vertex] = [
                    vertex if turn == own else self._bend(self.lane[vertex])
                    for turn in range(first, last + 1)
                ]
                for turn, member in enumerate(columns[vertex], first):
                    split[turn].append(member)
            rows += split
        if len(rows) > len(self.rows):
            self.rows = rows
            for index, row in enumerate(rows):
                for vertex in row:
                    self.layer[vertex] = index
            for edge, route in self.routes.items():
                path = [member for vertex in route for member in columns[vertex]]
                self.routes[edge] = path[path.index(edge[0]) : path.index(edge[1]) + 1]
            self.up, self.down = self._links()

    def _bend(self, lane: int) -> int:
        """Add a bend and return its vertex."""
        self.layer.append(-1)
        self.breadth.append(0.0)
        self.lane.append(lane)
        return len(self.layer) - 1

    def _gap(self, left: int, right: int) -> float:
        """Distance that the centres of two neighbours in a row keep at least."""
        space = BOX_GAP if max(left, right) < self.boxes else LANE_GAP
        return (self.breadth[left] + self.breadth[right]) / 2 + space

    def _place(self) -> list[float]:
        """Coordinates across: least squares over the edges, one row at a time, order kept.

        A row's optimum given its neighbour rows is an isotonic regression (`_spread`), so that
        nothing is pushed further than needed. Every pull has its counter-pull: sweeps that look
        one way only were tried, and made deep graphs slant. The last two stand roots in the
        middle of their trees, which least squares alone does not.
        """
        across = [0.0] * len(self.layer)
        for row, gaps in zip(self.rows, self.gaps, strict=True):
            places = accumulate(gaps, initial=-sum(gaps) / 2)
            for vertex, place in zip(row, places, strict=True):
                across[vertex] = place
        vertices = range(len(across))
        up = [self._pulls(vertex, self.up[vertex]) for vertex in vertices]
        down = [self._pulls(vertex, self.down[vertex]) for vertex in vertices]
        both = [above + below for above, below in zip(up, down, strict=True)]
        over = [up[v] if self._is_root(v, self.up, self.down) else [] for v in vertices]
        under = [down[v] if self._is_root(v, self.down, self.up) else [] for v in vertices]
        forth = range(len(self.rows))
        back = forth[::-1]
        settle = [(both, forth), (both, back)] * SETTLE
        for pulls, order in [*settle, (over, forth), (under, back)]:
            for index in order:
                _spread(self.rows[index], self.gaps[index], pulls, across)
        return across

    def _pulls(self, vertex: int, others: list[int]) -> list[tuple[int, float]]:
        """Neighbours and how hard each pulls: lanes want to be straight most of all."""
        mine = vertex >= self.boxes
        return [(other, (1.0, 2.0, 8.0)[mine + (other >= self.boxes)]) for other in others]

    def _is_root(self, vertex: int, side: list[list[int]], other_side: list[list[int]]) -> bool:
        """Whether a box is the root of a tree on one side: its neighbours there are its own."""
        mine = side[vertex]
        return (
            vertex < self.boxes
            and len(mine) >= len(other_side[vertex])
            and all(len(other_side[neighbour]) == 1 for neighbour in mine)
        )

    def _straighten(self) -> None:
        """Give each lane and each plain chain one coordinate, or few where there is no room."""
        place = {v: (r, i) for r, row in enumerate(self.rows) for i, v in enumerate(row)}
        for run in self._runs():
            part: list[int] = []
            low, high = -inf, inf
            for vertex in run:
                left, right = self._room(*place[vertex])
                if part and max(low, left) > min(high, right):
                    self._align(part, low, high)
                    part, low, high = [], -inf, inf
                part.append(vertex)
                low, high = max(low, left), min(high, right)
            self._align(part, low, high)

    def _runs(self) -> list[list[int]]:
        """Lanes and chains, longest first: each vertex follows the one above it and no other."""
        after: dict[int, int] = {}
        for vertex, users in enumerate(self.down):
            for user in users:
                alone = len(users) == 1 == len(self.up[user])
                if alone or self.lane[vertex] == self.lane[user]:
                    after[vertex] = user
        runs = []
        for vertex in sorted(after.keys() - set(after.values())):
            run = [vertex]
            while run[-1] in after:
                run.append(after[run[-1]])
            runs.append(run)
        return sorted(runs, key=len, reverse=True)

    def _room(self, row: int, place: int) -> tuple[float, float]:
        """How far a vertex may go left and right before it is too near to a neighbour."""
        line, gaps = self.rows[row], self.gaps[row]
        left = self.across[line[place - 1]] + gaps[place - 1] if place else -inf
        right = self.across[line[place + 1]] - gaps[place] if place < len(gaps) else inf
        return left, right

    def _align(self, vertices: list[int], low: float, high: float) -> None:
        mean = sum(self.across[vertex] for vertex in vertices) / len(vertices)
        for vertex in vertices:
            self.across[vertex] = min(max(mean, low), high)


def _layers(inputs: list[list[int]]) -> list[int]:
    """Longest-path layers; a vertex with more users than inputs then moves down to its users."""
    layer = [0] * len(inputs)
    users: list[list[int]] = [[] for _ in inputs]
    for vertex, sources in enumerate(inputs):
        layer[vertex] = 1 + max((layer[source] for source in sources), default=-1)
        for source in sources:
            users[source].append(vertex)
    for vertex in reversed(range(len(inputs))):
        if len(users[vertex]) > len(inputs[vertex]):
            layer[vertex] = min(layer[user] for user in users[vertex]) - 1
    return layer


def _order(layer: list[int], up: list[list[int]], down: list[list[int]]) -> list[list[int]]:
    """Rows of vertices with few crossings: barycentre sweeps from two starts, the best kept."""
    best: list[list[int]] = []
    fewest = inf
    for start in (_depth_first(up, down), range(len(layer))):
        rows: list[list[int]] = [[] for _ in range(max(layer) + 1)]
        for vertex in start:
            rows[layer[vertex]].append(vertex)
        position = [0] * len(layer)
        for row in rows:
            _number(row, position)
        for sweep in range(SWEEPS):
            crossings = _crossings(rows, down, position)
            if crossings < fewest:
                best, fewest = [list(row) for row in rows], crossings
            if fewest == 0:
                return best
            for row in reversed(rows) if sweep % 2 else rows:
                _sort_by_barycentre(row, down if sweep % 2 else up, position)
    return best


def _number(row: list[int], position: list[int]) -> None:
    for place, vertex in enumerate(row):
        position[vertex] = place


def _sort_by_barycentre(row: list[int], side: list[list[int]], position: list[int]) -> None:
    """Sort a row by the mean place of each vertex's neighbours; one without keeps its place."""
    means = {
        vertex: sum(position[other] for other in side[vertex]) / len(side[vertex])
        for vertex in row
        if side[vertex]
    }
    moved = iter(sorted(means, key=means.__getitem__))
    row[:] = [next(moved) if vertex in means else vertex for vertex in row]
    _number(row, position)


def _depth_first(up: list[list[int]], down: list[list[int]]) -> list[int]:
    """Vertices from each sink to its inputs, depth first: trees come out without a crossing."""
    found: dict[int, None] = {}
    stack = [vertex for vertex in reversed(range(len(up))) if not down[vertex]]
    while stack:
        vertex = stack.pop()
        if vertex not in found:
            found[vertex] = None
            stack += reversed(up[vertex])
    return list(found)


def _crossings(rows: list[list[int]], down: list[list[int]], position: list[int]) -> int:
    """How often edges between neighbouring rows cross: the inversions of their ends."""
    count = 0
    for row in rows:
        ends: list[int] = []
        for vertex in row:
            mine = [position[other] for other in down[vertex]]
            count += sum(len(ends) - bisect_right(ends, end) for end in mine)
            for end in mine:
                insort(ends, end)
    return count


def _spread(
    row: list[int], gaps: list[float], pulls: list[list[tuple[int, float]]], across: list[float]
) -> None:
    """Move a row to the weighted mean of its neighbours, as near as order and gaps allow.

    Least squares under ``x[i + 1] - x[i] >= gaps[i]``, solved exactly by pooling adjacent
    violators (Ayer et al. 1955) in the coordinates from which the gaps have been taken off.
    """
    offsets = list(accumulate(gaps, initial=0.0))
    pools: list[tuple[float, float, int]] = []  # weight, weighted sum, vertices
    for vertex, offset in zip(row, offsets, strict=True):
        pull = pulls[vertex]
        weight = sum(strength for _, strength in pull)
        total = sum(strength * across[other] for other, strength in pull)
        if not pull:  # nothing pulls: stay about, and give way
            weight, total = 0.01, 0.01 * across[vertex]
        total -= weight * offset
        size = 1
        while pools and pools[-1][1] * weight >= total * pools[-1][0]:
            pooled = pools.pop()
            weight, total, size = weight + pooled[0], total + pooled[1], size + pooled[2]
        pools.append((weight, total, size))
    index = 0
    for weight, total, size in pools:
        for place in range(index, index + size):
            across[row[place]] = total / weight + offsets[place]
        index += size
