"""Lines of users' code: where arrays, and the nodes that functions make for them, come from."""

from __future__ import annotations

import sys

from lazyflow.array.nodes.expr import Expr, Line, same_line

_PASSED_ON = ("lazyflow.", "numpy.", "numba.")  # what calls us for the user


def users_line() -> Line:
    """Return the line outside of lazyflow that asked for an array, as `give_line` wants it."""
    frame = sys._getframe(3)  # above this, `give_line` and `Array.__init__`
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(_PASSED_ON) or name.startswith("lazyflow.testing"):
            break
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def hand_down(nodes: list[Expr]) -> None:
    """Give nodes that passes made the line of what they are for; each comes after its inputs."""
    for node in reversed(nodes):
        for x in node.inputs:
            same_line(x, node)
