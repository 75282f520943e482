"""From wanted expressions to nodes of tasks: all passes, and the tasks of what they give."""

from __future__ import annotations

from collections.abc import Sequence

from lazyflow import config
from lazyflow.array.evaluation.light import is_light
from lazyflow.array.nodes.expr import Expr, same_line
from lazyflow.array.nodes.lowering import Lowering
from lazyflow.array.nodes.sources import Tasks
from lazyflow.array.passes.pipeline import optimize


def as_tasks(wanted: Sequence[Expr], keep: bool = True) -> list[Tasks]:
    """Return the tasks of some expressions that are computed together.

    keep
        Their chunks must stay as they are.

    >>> import lazyflow.array as la
    >>> (made,) = as_tasks([(la.ones(4, chunks=2) + 1).expr])
    >>> len(made.tasks)
    2
    """
    nodes = optimize(wanted, keep, config.get("array_fusion"))
    light = is_light(nodes)
    found = []
    for node, made, tasks in zip(wanted, nodes, Lowering().lower(nodes), strict=True):
        found.append(Tasks(tasks, made.dtype_or_lazy, made.chunks, light))
        same_line(found[-1], node)
    return found
