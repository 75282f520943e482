"""Pictures of task graphs as SVG text, up to 500 nodes.

`layout` computes the places of the boxes. The same nodes give the same bytes; every text is
escaped, and the SVG has no script, no style sheet and no ids, so that many pictures can stand in
one notebook page.
"""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from math import sqrt

from lazyflow.diagnostics import boxes
from lazyflow.diagnostics.boxes import BOX_HEIGHT, FONT_SIZE, Vertex, count
from lazyflow.diagnostics.layout import Layout

__all__ = ["to_svg"]

MAX_TASKS = 500

ROW_GAP = 36.0  # px between rows at least
COMPONENT_GAP = 22.0  # px between the components of a graph
MARGIN = 14.0  # px


def to_svg(nodes: Sequence[Vertex], *, rankdir: str = "TB", max_tasks: int = MAX_TASKS) -> str:
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
    >>> to_svg([Vertex("inc", ())]).count("<rect")
    2
    """
    boxes.one_of("rankdir", rankdir, boxes.RANKDIRS)
    boxes.check(nodes)
    if len(nodes) > max_tasks:
        values = sum(node.kind == "value" for node in nodes)
        raise ValueError(
            f"this graph has {count(len(nodes) - values, 'task')} and {count(values, 'value')}; "
            f"the built-in drawing takes {max_tasks:,} nodes, as more cannot be read. Visualize "
            "a part of the graph (an intermediate value), or build a smaller graph (fewer chunks "
            "or steps), or give engine='graphviz'"
        )
    if not nodes:
        text = f'<text x="80" y="34" text-anchor="middle" fill="{boxes.INK}">empty graph</text>'
        return _document(160, 60, "empty graph", [text])
    parts = [_Component(nodes, members, rankdir) for members in _components(nodes)]
    width, height = _shelve(parts)
    body = [f'<g fill="none" stroke="{boxes.LINE}" stroke-width="1.2" stroke-linejoin="round">']
    body += [line for part in parts for line in part.edge_elements()]
    body += ["</g>", f'<g text-anchor="middle" fill="{boxes.INK}">']
    body += [line for part in parts for line in part.box_elements(nodes)]
    return _document(width, height, f"task graph of {count(len(nodes), 'node')}", [*body, "</g>"])


def _document(width: float, height: float, name: str, body: list[str]) -> str:
    """Wrap the elements; presentation attributes only, as a style sheet would leak into a page."""
    size = f'width="{width:.0f}" height="{height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:.0f} '
            f'{height:.0f}" font-family="sans-serif" font-size="{FONT_SIZE}" role="img" '
            f'aria-label="{name}">',
            f'<rect {size} rx="6" fill="{boxes.BACKGROUND}"/>',
            *body,
            "</svg>\n",
        ]
    )


class _Component:
    """A connected component of the graph, laid out, and its place in the picture."""

    def __init__(self, nodes: Sequence[Vertex], members: list[int], rankdir: str) -> None:
        local = {index: i for i, index in enumerate(members)}
        inputs = [[local[s] for s in dict.fromkeys(nodes[i].inputs)] for i in members]
        self.members = members
        self.labels = [boxes.label_of(nodes[index]) for index in members]
        self.widths = [max(40.0, boxes.text_width(label) + 20) for label in self.labels]
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
        """Place the rows one after the other, further apart where edges run far across."""
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
        """Return the start and the end of a box in the direction of its edges."""
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
        """Yield one path for each edge, its arrowhead included."""
        members = self.members
        for (source, target), route in sorted(self.layout.routes.items()):
            path = self._path(route)
            yield f'<path data-edge="{members[source]} {members[target]}" d="{path}"/>'

    def _path(self, route: list[int]) -> str:
        """Return a path: straight through each row, an S between rows, an arrowhead at the end."""
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
        """Return how far an edge without bends bows out, so that it passes beside boxes."""
        layer = self.layout.layer
        if layer[following] - layer[vertex] <= 1:
            return 0.0
        return min(60 + (self.start[layer[following]] - self.end[layer[vertex]]) / 16, 480)

    def box_elements(self, nodes: Sequence[Vertex]) -> Iterator[str]:
        """Yield one group for each box: tooltip, rectangle, label."""
        for vertex, index in enumerate(self.members):
            start, end = self._box_span(vertex)
            x, y = self._turn(self.layout.across[vertex], (start + end) / 2)
            width = self.widths[vertex]
            fill, border, line, radius = boxes.STYLES[nodes[index].kind]
            fill = nodes[index].fill or fill
            yield (
                f'<g data-node="{index}"><title>{escape(boxes.tooltip(nodes[index]))}</title>'
                f'<rect x="{x - width / 2:.1f}" y="{y - BOX_HEIGHT / 2:.1f}" width="{width:.1f}" '
                f'height="{BOX_HEIGHT:.0f}" rx="{radius:.0f}" fill="{fill}" stroke="{border}" '
                f'stroke-width="{line:g}"/><text x="{x:.1f}" y="{y + FONT_SIZE * 0.35:.1f}">'
                f"{escape(self.labels[vertex])}</text></g>"
            )


def _components(nodes: Sequence[Vertex]) -> list[list[int]]:
    """Return the connected components, each as its node indices in order."""
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


def _shelve(parts: list[_Component]) -> tuple[float, float]:
    """Place components side by side in rows, deep ones first; return the size of the picture."""
    area = sum((part.width + COMPONENT_GAP) * (part.height + COMPONENT_GAP) for part in parts)
    limit = max(max(part.width for part in parts), sqrt(2 * area)) + MARGIN
    left = top = bottom = MARGIN
    right = 0.0
    for part in sorted(parts, key=lambda part: -part.height):
        if left > MARGIN and left + part.width > limit:
            left, top = MARGIN, bottom + COMPONENT_GAP
        part.left, part.top = left, top
        right = max(right, left + part.width)
        bottom = max(bottom, top + part.height)
        left += part.width + COMPONENT_GAP
    return right + MARGIN, bottom + MARGIN
