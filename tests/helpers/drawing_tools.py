"""Graphs to be drawn."""

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from itertools import pairwise

from lazyflow.diagnostics.boxes import Vertex

SVG = "{http://www.w3.org/2000/svg}"


class Parsed:
    """The geometry of a picture, read back from its text."""

    def __init__(self, text):
        self.root = ElementTree.fromstring(text)
        self.width, self.height = (float(self.root.get(name)) for name in ("width", "height"))
        groups = [group for group in self.root.iter(f"{SVG}g") if group.get("data-node")]
        self.groups = {int(group.get("data-node")): group for group in groups}
        assert len(self.groups) == len(groups)
        self.boxes = {index: rectangle(group) for index, group in self.groups.items()}
        self.paths = Counter(
            tuple(map(int, path.get("data-edge").split())) for path in self.root.iter(f"{SVG}path")
        )
        self.lines = {
            tuple(map(int, path.get("data-edge").split())): points(path.get("d"))
            for path in self.root.iter(f"{SVG}path")
        }

    def label(self, index):
        return self.groups[index].find(f"{SVG}text").text or ""

    def title(self, index):
        return self.groups[index].find(f"{SVG}title").text or ""

    def centre(self, index):
        left, top, right, bottom = self.boxes[index]
        return (left + right) / 2, (top + bottom) / 2


def rectangle(group):
    box = group.find(f"{SVG}rect")
    x, y, width, height = (float(box.get(name)) for name in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def points(data):
    """Points along the stroke of a path; the arrowhead, which is the second stroke, left out."""
    found = []
    for command, numbers in re.findall("([MLC])([^MLC]*)", data):
        values = [float(number) for number in numbers.split()]
        ends = list(zip(values[::2], values[1::2], strict=True))
        if command == "M" and found:
            break
        curve = [*found[-1:], *ends]
        steps = 24 if len(curve) > 1 else 1
        found += [bezier(curve, step / steps) for step in range(1, steps + 1)]
    return found


def bezier(curve, t):
    """De Casteljau's point of a straight line or a cubic curve."""
    while len(curve) > 1:
        curve = [(x + (p - x) * t, y + (q - y) * t) for (x, y), (p, q) in pairwise(curve)]
    return curve[0]


def chain(length):
    return [Vertex("inc", (i - 1,) if i else ()) for i in range(length)]


def tree(leaves):
    nodes = [Vertex("load", ()) for _ in range(leaves)]
    level = list(range(leaves))
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=True)
        first = len(nodes)
        nodes += [Vertex("add", pair) for pair in pairs]
        level = list(range(first, len(nodes)))
    return nodes
