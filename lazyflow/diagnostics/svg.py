"""Pictures of task graphs as SVG text, up to 500 nodes.

Its first part computes the places of the boxes. The same nodes give the same bytes; every text is
escaped, and the SVG has no script, no style sheet and no ids, so that many pictures can stand in
one notebook page.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from html import escape
from itertools import accumulate, cycle, pairwise
from math import inf, isqrt, sqrt

from lazyflow.diagnostics import boxes
from lazyflow.diagnostics.boxes import BOX_HEIGHT, FONT_SIZE, Vertex, count

# -- layout -------------------------------------------------------------------------------
#
# Where the boxes and edges of a task graph stand: a layered layout in near linear time.
#
# The method is that of Sugiyama, Tagawa and Toda (1981): longest-path layers, one bend per crossed
# layer on long edges, barycentre sweeps against crossings, then coordinates that pull connected
# boxes over each other. An edge bends only between rows, and a long edge has a lane of its own
# through each row, so that no edge runs through a box.


BOX_GAP = 16.0  # px between neighbours of a row; lanes of edges stand closer
LANE_GAP = 9.0  # px
WIDEST = 2_400.0  # px; the boxes of a wider row are staggered
SWEEPS = 16  # down and up, in which rows are put in order; a guess, like the next
SETTLE = 8  # passes forth and back that move boxes over each other
MAX_BENDS = 5_000  # reached only by hundreds of rows that are crossed by dozens of edges


class Layout:
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


# -- the picture --------------------------------------------------------------------------

MAX_TASKS = 500  # that are drawn: more can't be read

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
