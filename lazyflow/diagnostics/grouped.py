"""Graphs that are too large to be drawn task by task: boxes of tasks that do the same."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace

from lazyflow.diagnostics.boxes import Vertex, count

__all__ = ["grouped"]

_NAMED = 12  # functions that the label and the tooltip of a box list


def grouped(nodes: Sequence[Vertex], most: int) -> list[Vertex]:
    """Return at most `most` vertices, each for all nodes of one function at one depth.

    Nodes are one group where they have one label, one kind, and inputs of the same groups: the
    chunks of an array expression, the levels of a tree. Where these are still too many (a long
    chain), nodes of one label are one group; labels that lead to each other in a circle share a
    box, and so do the rarest labels where there are more than `most`.

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
        _vertex(group, tuple(sources)) for group, sources in zip(members, inputs, strict=True)
    ]


def _vertex(nodes: list[Vertex], inputs: tuple[int, ...]) -> Vertex:
    """Return one box for several nodes: what they are, how many, and the first one's tooltip."""
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
