"""Lines of users' code, where arrays and the nodes that they are made of come from."""

from __future__ import annotations

import sys

from lazyflow.array.nodes.expr import Expr, Line, same_line

_PASSED_ON = ("lazyflow.", "numpy.", "numba.")  # modules that call lazyflow on behalf of the user


def users_line() -> Line:
    """Return the line outside of lazyflow that is making an array: called by `give_line`."""
    frame = sys._getframe(3)  # above this, `give_line` and `Array.__init__`
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(_PASSED_ON) or name.startswith("lazyflow.testing"):
            break
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def hand_down(nodes: list[Expr]) -> None:
    """Give nodes that passes made the line of the node that uses them; inputs come first."""
    for node in reversed(nodes):
        for x in node.inputs:
            same_line(x, node)
