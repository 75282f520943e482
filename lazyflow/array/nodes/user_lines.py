"""Lines of users' code: where arrays, and the nodes that functions make for them, come from."""

from __future__ import annotations

import sys
from typing import Any

from lazyflow.array.nodes.expr import Expr

_PASSED_ON = ("lazyflow.", "numpy.", "numba.")  # what calls us for the user


def mark(expr: Expr) -> None:
    """Give a node, and all below that have none, the line that is not ours and asked for it."""
    if expr.place is not None:
        return
    place = _users_place()
    stack = [expr]
    while stack:
        node = stack.pop()
        if node.place is None:
            node.place = place
            stack.extend(node.inputs)


def _users_place() -> tuple[Any, int]:
    frame = sys._getframe(3)  # above mark and Array.__init__
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(_PASSED_ON) or name.startswith("lazyflow.testing"):
            break
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def hand_down(nodes: list[Expr]) -> None:
    """Give nodes that passes made the line of what they are for; each comes after its inputs."""
    for node in reversed(nodes):
        if node.place is not None:
            for x in node.inputs:
                if x.place is None:
                    x.place = node.place
