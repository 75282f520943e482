"""What an expression becomes: which operations run together, how, and why not otherwise.

The report runs the passes and makes the tasks as `compute` would, but no task runs and no kernel is
compiled. The first block of each input stands for all blocks of a node. The peak of memory is an
estimate; with a memory limit the report says whether a task alone exceeds it, and is refused, or
the rest goes to files.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.array.core import Array
from lazyflow.array.kernels import run
from lazyflow.array.nodes.elementwise import Fused
from lazyflow.array.nodes.expr import Expr, below
from lazyflow.array.nodes.lowering import Lowering
from lazyflow.array.nodes.reductions import Reduced
from lazyflow.array.nodes.sources import Generated, TaskBlocks
from lazyflow.array.nodes.views import View
from lazyflow.array.passes.memory import BlockSizes, projected_peak
from lazyflow.array.passes.rewrites import explain_passes, optimize
from lazyflow.graph.plan import Explanation
from lazyflow.graph.task import Task
from lazyflow.store.exchange_file import file_within
from lazyflow.store.sizes import format_bytes


def report(*arrays: Array, keep: bool = False, explain: bool = False) -> str:
    """Describe the tasks that would compute some arrays together. Nothing is computed.

    Parameters
    ----------
    *arrays
        Arrays.
    keep
        As for `persist`: the arrays keep their chunks.
    explain
        First list the changes of each pass, such as views that were moved.

    Returns
    -------
    A line for each kind of task: its number, the fused operations, the elements of a block, and the
    bytes read; below it, whether a kernel or NumPy's functions run it, and why its group ends
    there. The last line is the projected peak: bytes of blocks in memory at once, when
    ``num_workers`` of `config` (default: one for each core) run the tasks. It leaves out memory
    that functions use inside, and values that were in memory before.

    Raises
    ------
    TypeError
        An argument is no chunked array.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.ones(4_000_000, chunks=1_000_000)
    >>> la.report((x * 2 + 1).sum())  # doctest: +ELLIPSIS
    4 x multiply, add, sum: blocks of 1,000,000, 0 bytes read from memory
        2 operations and sum over 1,000,000 elements, 8 MB read: ...
        ends here: it reduces each block
    1 x sum: merges partial results
    peak: about ... in memory at once on ...
    >>> la.report((-x).reshape(2_000, 2_000)[:3], explain=True)  # doctest: +ELLIPSIS
    merge equal: 4 nodes, all of them different
    views down: getitem goes below negative, reshape
    ...
    """
    for x in arrays:
        if not isinstance(x, Array):
            raise TypeError(
                f"report() takes chunked arrays; got a {type(x).__name__}. "
                "lazyflow.optimize(x, explain=True) describes other lazy values"
            )
    wanted = [x.expr for x in arrays]
    fusion = config.get("array_fusion")
    nodes = optimize(wanted, keep, fusion)
    limit = config.memory_limit()
    low = Lowering(lambda: None if limit is None else partial(file_within, limit))
    wanted_tasks = list(chain.from_iterable(low.lower(nodes)))
    counts = low.counts()
    lines = [
        line for node in below(nodes) if counts.get(node) for line in _lines(node, counts[node])
    ]
    lines.append(_of_memory(low, wanted_tasks, keep))
    return Explanation(
        "\n".join([explain_passes(wanted, keep, fusion), *lines] if explain else lines)
    )


def _of_memory(low: Lowering, wanted: Sequence[Task], keep: bool) -> str:
    workers = config.get("num_workers") or config.cpu_count()
    sizes, limit = BlockSizes(low), config.memory_limit()
    peak, results = projected_peak(sizes, wanted, workers)
    least = "" if sizes.is_whole else "at least "
    on = f"{workers} workers" if workers > 1 else "1 worker"
    line = (
        f"peak: {least}about {format_bytes(peak)} in memory at once on {on}, "
        f"{format_bytes(results)} of it results"
    )
    if limit is None or peak <= limit:
        return line
    line += f"; memory_limit is {format_bytes(limit)}: "
    sizes.give(() if keep else wanted)
    most = max(sizes.needs(sizes.sure), default=0)
    if most > limit:
        return f"{line}a task alone needs {format_bytes(most)}, so that it will be refused"
    but = "" if keep or results < limit else ", but not the results, which compute() returns"
    return f"{line}the rest is written to files{but}"


def _lines(node: Expr, count: int) -> list[str]:
    if isinstance(node, Fused):
        return _of_fused(node, count)
    if isinstance(node, TaskBlocks):
        return [f"{count:,} x {node.name}: blocks that are tasks already, or kept"]
    does = "merges partial results" if isinstance(node, Reduced) else (
        "a view of blocks" if isinstance(node, View) else (
            "blocks as they are" if node.inputs else "copies what is read"
        )
    )
    return [f"{count:,} x {node.name}: {does}"]


def _of_fused(node: Fused, count: int) -> list[str]:
    names = [getattr(step.op, "name", None) or step.op.__name__ for step in node.program.steps]
    names += [wanted[1].kind.__name__ for wanted in node.program.outputs if wanted[1] is not None]
    blocks = _blocks(node)
    shape = np.broadcast_shapes(*[block.shape for block in blocks])
    size = " x ".join(f"{n:,}" for n in shape) or "1"
    read = sum(
        block.nbytes for x, block in zip(node.inputs, blocks[len(node.consts):], strict=True)
        if not _is_made(x)
    )
    calls = f"{count:,} x {', '.join(names)}"
    head = f"{calls}: blocks of {size}, {format_bytes(read)} read from memory"
    kernel_lines = run.report(node.program, blocks).splitlines()
    return [head, *[f"    {line}" for line in kernel_lines], f"    ends here: {node.why}"]


def _is_made(node: Expr) -> bool:
    while isinstance(node, View):
        (node,) = node.inputs
    return isinstance(node, Generated)


def _blocks(node: Fused) -> list[Any]:
    """Return arrays like the first block of each input; their values are never looked at."""
    found: list[Any] = list(node.consts)
    for x in node.inputs:
        shape = tuple([sizes[0] or 0 for sizes in x.chunks])
        later = getattr(x.formula, "later", None) if isinstance(x, Generated) else None
        if later is None:
            found.append(np.empty(shape, x.dtype))
        else:
            found.append(later(tuple([slice(0, n) for n in shape])))
    return found
