"""The passes over expressions, in one list, and `optimize`, which runs them.

Each pass takes all wanted nodes at once and returns equals of them that cost less. Running a pass
again changes nothing.

    >>> import numpy as np
    >>> import lazyflow.array as la
    >>> x = la.from_array(np.arange(12.0), chunks=4)
    >>> print(explain_passes([(x * 2 + 1)[5:7].expr]))
    merge equal: 6 nodes, all of them different
    views down: getitem goes below multiply, add
    rechunks down: there is no rechunk
    reshapes down: there is no reshape
    merge equal: 6 nodes, all of them different
    wide blocks: no result is a product
    fuse: 2 operations run as 1 group
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Container, Sequence
from functools import partial
from itertools import accumulate, pairwise
from math import prod
from typing import Any, NamedTuple

from lazyflow.array.chunks import Chunks, are_parts
from lazyflow.array.nodes.align import operand_chunks, union
from lazyflow.array.nodes.contraction import Contraction, blocks_of_columns, in_wide_blocks
from lazyflow.array.nodes.elementwise import Elementwise
from lazyflow.array.nodes.expr import (
    Expr,
    Recipe,
    Request,
    Roots,
    answered,
    are_same,
    below,
    hand_down,
    rebuilt,
    same,
    same_line,
)
from lazyflow.array.nodes.joined import Concatenate, concatenated
from lazyflow.array.nodes.rechunking import Rechunk, in_chunks, in_parts, is_held
from lazyflow.array.nodes.reductions import Reduce
from lazyflow.array.nodes.reshaped import Reshape, in_blocks
from lazyflow.array.nodes.selection import Pick, Selection
from lazyflow.array.nodes.sources import Const
from lazyflow.array.nodes.views import View, view
from lazyflow.array.passes.fusion import CHEAP, explain_groups, fuse, is_quick
from lazyflow.array.passes.words import in_a_line, size_of
from lazyflow.errors import InputMutated
from lazyflow.graph import plan
from lazyflow.graph.task import line_of
from lazyflow.schedulers.core.snapshots import COPIED_UP_TO, Watch
from lazyflow.store.sizes import format_bytes

# -- the pass that makes equal nodes one --------------------------------------------------


def merge_equal(wanted: Sequence[Expr], *_: bool) -> Sequence[Expr]:
    """Make equal parts one, so that they run once.

    >>> import lazyflow.array as la
    >>> x = la.ones(4, chunks=2)
    >>> one, other = merge_equal([(x + 1).expr, (x + 1).expr])
    >>> one is other
    True
    """
    alike = Counter([(type(node), node.shape) for node in below(wanted)])
    if len(alike) == alike.total():
        return wanted
    known: dict[Any, Expr] = {}

    def change(node: Expr, inputs: tuple[Expr, ...]) -> Expr:
        if alike[type(node), node.shape] == 1:
            return same(node, inputs)
        key = (type(node), node.key(), *map(id, inputs))
        found = known.get(key)
        if found is None:
            found = known[key] = same(node, inputs)
        return found

    return rebuilt(wanted, change)


def explain_merges(before: Sequence[Expr], after: Sequence[Expr], keep: bool) -> str:
    """Say how many nodes were equal to others."""
    count = len(below(before))
    fewer = count - len(below(after))
    if not fewer:
        return f"{count:,} nodes, all of them different"
    return f"{fewer:,} of {count:,} nodes are equal to others, and join them"


# -- the pass that gives products wide blocks, where their chunks don't show --------------


def wide_blocks(wanted: Sequence[Expr], keep: bool = False, *_: bool) -> Sequence[Expr]:
    """Return products in wide blocks, which are faster to multiply.

    >>> import lazyflow.array as la
    >>> x = la.ones((800, 800), chunks=100)
    >>> wide_blocks([(x @ x).expr])[0].numblocks
    (8, 1)
    """
    return wanted if keep else [in_wide_blocks(node) for node in wanted]


def explain_wide(before: Sequence[Expr], after: Sequence[Expr], keep: bool) -> str:
    """Say which products have other blocks, and why the others keep theirs."""
    words = []
    for old, new in zip(before, after, strict=True):
        blocks = " x ".join(map(str, old.numblocks))
        if old.chunks != new.chunks:
            made = " x ".join(map(str, new.numblocks))
            words.append(f"{new.name} has {made} blocks instead of {blocks}")
        elif isinstance(old, Contraction):
            why = "x.chunks says so, and only compute() may have others" if keep else (
                blocks_of_columns(old)[1]
            )
            words.append(f"{old.name} stays in {blocks} blocks: {why}")
    return in_a_line(words) or "no result is a product"


# -- the pass that drops rechunks where what is below can be made in any chunks -----------


def rechunks_down(wanted: Sequence[Expr], *_: bool) -> Sequence[Expr]:
    """Drop rechunks that cancel, and rechunks of sources that can be made in any chunks.

    >>> import lazyflow.array as la
    >>> x = la.ones(8, chunks=2)
    >>> (made,) = rechunks_down([(x + 1).rechunk(4).rechunk(8).expr])
    >>> made, made.chunks
    (<add float64 8>, ((8,),))
    """
    nodes = below(wanted)
    rechunks = [node for node in nodes if isinstance(node, Rechunk)]
    free = _free(nodes, _users(nodes)) if rechunks else set()
    if not any(node.inputs[0] in free or _is_recut(node, free) for node in rechunks):
        return wanted
    found = answered(
        wanted, partial(_recipe_in_chunks, free), lambda made, node, chunks: same_line(made, node)
    )
    return [found[node, None] for node in wanted]


def _users(nodes: list[Expr]) -> Counter[Expr]:
    """Count the nodes that read each node; inputs of joins and rechunks have the users of these."""
    users: Counter[Expr] = Counter()
    for node in reversed(nodes):  # what is joined is asked for in the chunks of each user
        for x in node.inputs:
            users[x] += max(users[node], 1) if isinstance(node, Concatenate | Rechunk) else 1
    return users


def _free(nodes: list[Expr], users: Counter[Expr]) -> set[Expr]:
    """Return the nodes that can be made in any chunks at no cost.

    An operation with several readers does not count: it and all below would be made anew in the
    chunks of each reader.
    """
    free: set[Expr] = set()
    for node in nodes:
        if node.free or (
            isinstance(node, Elementwise | Rechunk) and users[node] < 2
            and all(x in free for x in node.inputs)
        ):
            free.add(node)
    return free


def _recipe_in_chunks(free: set[Expr], node: Expr, chunks: Chunks | None) -> Recipe:
    """Return what makes a node in some chunks; None: in its own."""
    if isinstance(node, Rechunk) and node.inputs[0] in free:
        own = node.chunks if chunks is None else chunks
        return [_request(node.inputs[0], own)], lambda found: in_chunks(found[0], own)
    if isinstance(node, Rechunk) and _is_recut(node, free):
        own, (x,) = node.chunks if chunks is None else chunks, node.inputs
        parts, axis = _joined(x)
        return [_request(*pair) for pair in zip(parts, _pieces(x, own, free), strict=True)], (
            lambda found: in_chunks(concatenated(found, axis), own)
        )
    if chunks is None:
        return [(x, None) for x in node.inputs], partial(same, node)
    if isinstance(node, Elementwise) and node in free:
        needed = [_request(x, operand_chunks(x, node.shape, chunks)) for x in node.inputs]
        return needed, node.with_inputs
    return [(node, None)], lambda found: in_parts(found[0], chunks)


def _is_recut(node: Rechunk, free: set[Expr]) -> bool:
    """Tell whether what is joined below can be cut where the chunks end.

    Then blocks are copied only where a joint is, and once. Kept blocks are cut so where they stay
    nearly whole: of others, and of many pieces, copies are made at once (rechunking.py).
    """
    (x,) = node.inputs
    parts, _ = _joined(x)
    if None in x.shape or not all(each in free or is_held(each) for each in parts):
        return False
    pieces = _pieces(x, node.chunks, free)
    return [each.chunks for each in parts] != pieces and all(
        each in free or all(map(_is_nearly_whole, each.chunks, own))
        for each, own in zip(parts, pieces, strict=True)
    )


def _is_nearly_whole(chunks: tuple[int, ...], pieces: tuple[int, ...]) -> bool:
    """Tell whether chunks are cut into pieces of which one is at least three quarters of each.

    >>> _is_nearly_whole((8, 8), (1, 7, 8)), _is_nearly_whole((8, 8), (7, 1, 4, 4))
    (True, False)
    """
    if not are_parts(pieces, chunks):
        return False
    left = iter(pieces)
    for n in chunks:
        most, done = 0, 0
        while done < n:
            most, done = max(most, size := next(left)), done + size
        if 4 * most < 3 * n:
            return False
    return True


def _joined(x: Expr) -> tuple[tuple[Expr, ...], int]:
    """Return the nodes that a node consists of, and along which axis: it may be one."""
    return (x.inputs, x.axis) if isinstance(x, Concatenate) else ((x,), 0)


def _pieces(joined: Expr, chunks: Chunks, free: set[Expr]) -> list[Chunks]:
    """Return the chunks of what is joined whose ends are those of some chunks of the whole.

    Those of kept blocks have also the ends of these.
    """
    found: list[Chunks] = []
    first = 0
    parts, axis = _joined(joined)
    ends: Any = list(accumulate(chunks[axis]))
    for x in parts:
        n = x.shape[axis]
        assert n is not None
        last = first + n
        between = ends[bisect_right(ends, first):bisect_left(ends, last)]
        inside = sorted({first, *between, last})
        sizes = tuple([b - a for a, b in pairwise(inside)]) or (0,)
        wanted = (*chunks[:axis], sizes, *chunks[axis + 1:])
        if x not in free:
            wanted = tuple([union({*pair}) for pair in zip(x.chunks, wanted, strict=True)])
        found.append(wanted)
        first = last
    return found


def _request(node: Expr, chunks: Chunks) -> Request:
    return node, None if chunks == node.chunks else chunks


def explain_rechunks(before: Sequence[Expr], after: Sequence[Expr], keep: bool) -> str:
    """Say how many rechunks were dropped, and what the others copy and why."""
    nodes = below(before)
    rechunks = [node for node in nodes if isinstance(node, Rechunk)]
    if not rechunks:
        return "there is no rechunk"
    users = _users(nodes)
    free = _free(nodes, users)
    moved = [node for node in rechunks if node.inputs[0] in free]
    recut = [node for node in rechunks if node not in moved and _is_recut(node, free)]
    words = []
    for which, text in [
        (moved, "dropped: what is below has their chunks"),
        (recut, "cut where the parts that are joined below end"),
    ]:
        if which:
            words.append(f"{len(which):,} of {len(rechunks):,} rechunks are {text}")
    return in_a_line(words + [
        _why_copied(node, free, users) for node in rechunks if node not in {*moved, *recut}
    ])


def _why_copied(node: Rechunk, free: set[Expr], users: Counter[Expr]) -> str:
    """Say what a rechunk copies, and which node below keeps its chunks."""
    (x,) = node.inputs
    base = x
    while isinstance(base, Elementwise | Rechunk) and users[base] < 2:
        base = next(y for y in base.inputs if y not in free)
    if isinstance(base, Elementwise | Rechunk):
        why = f"{base.name} has {users[base]} users and is made once for all"
    elif is_held(base):
        why = "kept blocks have the chunks of their persist(): rechunk before it"
    elif base.inputs:
        why = f"{base.name} makes blocks in the chunks of what it reads: rechunk that instead"
    else:
        why = f"{base.name} has the chunks that it was made with: choose them there"
    return (
        f"{size_of(x)} of {x.name} are copied from {prod(x.numblocks):,} to "
        f"{prod(node.numblocks):,} blocks: {why}"
    )


# -- the pass that moves reshapes below operations ---------------------------------------------


def reshapes_down(
    wanted: Sequence[Expr], keep: bool = True, fusion: bool = True
) -> Sequence[Expr]:
    """Move reshapes below operations on elements, if that fuses them with others above.

    Blocks of what the operations read are reshaped instead, and of a formula nothing is.

    >>> import lazyflow.array as la
    >>> x = la.ones(6, chunks=3)
    >>> (made,) = reshapes_down([((x + 1).reshape(2, 3) * 2).expr])
    >>> made.inputs[0]
    <add float64 2 x 3>
    """
    passed = _reshaped_instead(wanted) if fusion else None
    if not passed:
        return wanted
    found = answered(
        wanted, partial(_recipe_of_reshape, passed), lambda made, node, how: same_line(made, node)
    )
    return [found[node, None] for node in wanted]


def _reshaped_instead(wanted: Sequence[Expr]) -> set[Expr]:
    """Return the operations that reshapes can move below, and reshapes between such operations.

    Whatever reads one of these nodes reads it through the same reshapes.
    """
    nodes = below(wanted)
    if not any(type(node) is Reshape and _moves_below(node.inputs[0]) for node in nodes):
        return set()
    uses: dict[Expr, set[Any]] = {node: set() for node in nodes}
    for node in wanted:
        uses[node].add(None)
    passed = set()
    fuses: set[Expr] = set()  # reshapes with an operation above that is fused then
    for node in reversed(nodes):
        (seen, *others), how = uses[node], None
        through = None if others else seen
        if type(node) is Reshape:
            if (through or node in fuses) and _has_few_operands(node.inputs[0]):
                how = _how(node, through)
        elif through and _moves_below(node):
            how = through
        if how is not None:
            passed.add(node)
        for x in node.inputs:
            uses[x].add(how)
        if isinstance(node, Elementwise | Reduce):
            fuses.update(node.inputs)
    for node in nodes:
        if type(node) is Reshape and node.inputs[0] not in passed:
            passed.discard(node)
    return passed


# Both are guessed.
_MOST_LOOKED_AT = 100  # nodes below one reshape, as a node may lie below many reshapes
_MOST_RESHAPED = 2  # operands that are reshaped, in place of the one result


def _has_few_operands(node: Expr) -> bool:
    """Tell whether no more blocks have to be reshaped for an operation than it saves."""
    blocks: set[Expr] = set()
    seen: set[Expr] = set()
    stack = [node]
    while stack and len(blocks) <= _MOST_RESHAPED:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        if len(seen) > _MOST_LOOKED_AT:
            return False
        if _moves_below(x):
            stack.extend(x.inputs)
        elif not x.free:
            blocks.add(x)
    return len(blocks) <= _MOST_RESHAPED


def _how(node: Any, then: Any = None) -> Any:
    """Return the chunks and the groups of axes of a reshape, or of two, of which `then` is later.

    Two together have one group of all axes: blocks keep their order.
    """
    return (node.chunks, node.groups) if then is None else (then[0], None)


def _moves_below(node: Expr) -> bool:
    """Tell whether each operand is a constant, or is blocks like those of the result."""
    order = tuple(range(node.ndim))
    operands = [x for x in node.inputs if not isinstance(x, Const)]
    return type(node) is Elementwise and bool(operands) and all(
        x.chunks == node.chunks and x.memory_order == order for x in operands)


def _recipe_of_reshape(passed: set[Expr], node: Expr, how: Any) -> Recipe:
    """Return what makes a node, reshaped to the chunks of `how`; None: as it is."""
    if node not in passed:
        if how is None:
            return [(x, None) for x in node.inputs], partial(same, node)
        return [(node, None)], lambda found: in_blocks(found[0], *how)
    if type(node) is Reshape:
        return [(node.inputs[0], _how(node, how))], lambda found: found[0]
    needed = [(x, None if isinstance(x, Const) else how) for x in node.inputs]
    return needed, node.with_inputs


def explain_reshapes(before: Sequence[Expr], after: Sequence[Expr], keep: bool) -> str:
    """Say below which operations reshapes were moved, and above which they stay and why."""
    nodes = below(before)
    reshapes = [node for node in nodes if type(node) is Reshape]
    if not reshapes:
        return "there is no reshape"
    passed = _reshaped_instead(before)
    is_off = bool(passed) and are_same(before, after)
    moved = {} if is_off else {node.inputs[0].name: None for node in reshapes if node in passed}
    words = [f"goes below {', '.join(moved)}"] if moved else []
    users = Counter([x for node in nodes for x in node.inputs] + list(before))
    for node in reshapes:
        if is_off or node not in passed:
            (x,) = node.inputs
            why = "fusion is off" if node in passed else _why_reshaped(x, users)
            blocks = f"{size_of(x)} in {prod(x.numblocks):,} blocks"
            words.append(f"stays above {x.name} ({blocks}): {why}")
    return in_a_line(words)


def _why_reshaped(x: Expr, users: Counter[Expr]) -> str:
    """Say why blocks of a node are reshaped, instead of those that it reads."""
    if type(x) is not Elementwise:
        return "it is no operation on elements"
    if not _moves_below(x):
        return "it reads arrays of other chunks, or of another order in memory"
    if not _has_few_operands(x):
        return f"more than {_MOST_RESHAPED} arrays that it reads would be reshaped instead"
    if users[x] > 1:
        return f"it has {users[x]} users, which need it in different shapes"
    return "no operation above would be fused with it"


# -- views go down ------------------------------------------------------------------------
#
# The pass that moves views to the sources, so that only what is needed is read and computed.
# A node that is seen through one view is made for that view alone. One that is seen through several
# is made once, and each view takes its part, unless next to nothing is repeated: otherwise each
# operation below would make the overlap of two parts twice, and those further down more often.

#: How a node is seen: through which view; None: as it is.
Seen = Selection | None


def views_down(wanted: Sequence[Expr], *_: bool) -> Sequence[Expr]:
    """Move slices, transpositions and new axes to the sources: the rest is never computed.

    >>> import lazyflow.array as la
    >>> x = la.ones((4, 6), chunks=2)
    >>> views_down([(-x).T[1].expr])
    [<negative float64 4>]
    """
    if not any(isinstance(node, View) and _may_move(node) for node in below(wanted)):
        return wanted
    found = answered(wanted, partial(_recipe_of_view, _made_whole(wanted)), _give_lines)
    return [found[node, None] for node in wanted]


def explain_moves(before: Sequence[Expr], after: Sequence[Expr], keep: bool) -> str:
    """Say below which operations each kind of view was moved, and where one stays and why."""
    whole = _made_whole(before)
    found = answered(before, partial(_recipe_of_view, whole), _give_lines)
    moved: dict[str, dict[str, None]] = {}
    stays: dict[str, None] = {}
    for (node, selection), made in found.items():
        if selection is None or not node.inputs or isinstance(node, View):
            continue
        name = View((node,), selection).name
        if selection.is_identity(node.shape) or name == node.name:  # only axes of length 1 are gone
            continue
        if isinstance(made, View) and made.inputs[0] is found.get((node, None)):
            stays[f"{name} stays above {node.name}: {_why_whole(node, whole)}"] = None
        else:
            moved.setdefault(name, {})[node.name] = None
    words = [f"{name} goes below {', '.join(names)}" for name, names in moved.items()]
    return in_a_line(words + list(stays)) or "no view is above an operation"


def _why_whole(node: Expr, whole: dict[Expr, list[Seen]]) -> str:
    """Say why a node is made as a whole, and not for each of its views alone."""
    size = _size(node, None)
    if node not in whole:
        return f"it can't make a part alone, and makes all {size:,} elements"
    if not isinstance(node, Elementwise):
        why = "only operations on elements are repeated"
    elif (steps := _steps(below([node]))[node]) > CHEAP:
        why = f"it costs more than {CHEAP} quick steps"
    else:
        why = f"{_most_repeats(steps)} times that may be made for users alone"
    taken = sum([_size(node, selection) for selection in whole[node]])
    return f"{len(whole[node])} users read {taken:,} elements of its {size:,}, and {why}"


def _may_move(node: View) -> bool:
    base = node.inputs[0]
    return (
        isinstance(base, View) or base.through(node.selection) is not None
        or node.selection.is_identity(base.shape)
    )


def _made_whole(wanted: Sequence[Expr]) -> dict[Expr, list[Seen]]:
    """Return the nodes that views don't move through, and how each of these is seen.

    The users of each node are known before it.
    """
    nodes = below(wanted)
    steps = _steps(nodes)
    uses: dict[Expr, dict[Seen, None]] = {node: {} for node in nodes}
    for node in wanted:
        uses[node][None] = None
    whole: dict[Expr, list[Seen]] = {}
    for node in reversed(nodes):
        seen = list(uses[node])
        if not _repeats_little(node, seen, steps[node]):
            whole[node] = seen.copy()
        for selection in seen:  # which gets longer where a view stays above the node itself
            for x, own in _recipe_of_view(whole, node, selection)[0]:
                how = None if own is None or own.is_identity(x.shape) else own
                if x is node and how not in uses[x]:
                    seen.append(how)
                uses[x][how] = None
    return whole


def _steps(nodes: list[Expr]) -> dict[Expr, int]:
    """Count the quick operations that make each node of views of others.

    More than CHEAP, and operations that are not quick, count as CHEAP + 1.
    """
    steps: dict[Expr, int] = {}
    for node in nodes:
        count = steps[node.inputs[0]] if isinstance(node, View) else 0
        if isinstance(node, Elementwise):
            count = 1 + sum([steps[x] for x in node.inputs]) if is_quick(node.op) else CHEAP + 1
        steps[node] = min(count, CHEAP + 1)
    return steps


def _repeats_little(node: Expr, uses: list[Seen], steps: int) -> bool:
    """Tell whether it costs little to make a node anew for each of its views, in `steps` steps.

    This does not depend on nodes above: a view that comes from further up is one more view here.
    """
    if len(uses) == 1:
        return True
    if not isinstance(node, Elementwise) or steps > CHEAP:
        return False
    made = sum([_size(node, selection) for selection in uses])
    return made <= _most_repeats(steps) * _size(node, None)


def _most_repeats(steps: int) -> int:
    """Return how many times an element may be made, on average."""
    return 3 if steps == 1 else 2


def _size(node: Expr, selection: Seen) -> int:
    """Count the elements that a view takes of a node, as if axes of unknown lengths had one."""
    picks = (None,) * node.ndim if selection is None else selection.picks
    return prod([
        (1 if n is None else n) if pick is None else pick.length if isinstance(pick, Pick) else 1
        for pick, n in zip(picks, node.shape, strict=True)
    ])


def _give_lines(made: Expr, node: Expr, selection: Seen) -> None:
    is_slice = selection is not None and isinstance(made, View)  # which has a line of its own
    for x in made.inputs if is_slice else (made,):
        same_line(x, node)


def _recipe_of_view(whole: Container[Expr], node: Expr, selection: Seen) -> Recipe:
    """Return what makes a node as seen through a view, which stays above `whole` nodes."""
    if isinstance(node, View):
        both = node.selection if selection is None else node.selection.then(selection)
        seen = node if selection is None else View((node,), selection)
        chunks = seen.chunks  # which its user relies on
        return [(node.inputs[0], both)], lambda found: in_chunks(found[0], chunks)
    if selection is None:
        return [(x, None) for x in node.inputs], partial(same, node)
    if selection.is_identity(node.shape):
        return [(node, None)], lambda found: found[0]
    if node not in whole:
        through = node.through(selection)
        if through is not None:
            return through
    return [(node, None)], lambda found: view(found[0], selection)


# -- the list of passes -------------------------------------------------------------------

Nodes = Sequence[Expr]


class ExprPass(NamedTuple):
    """One rewriting of expressions.

    Attributes
    ----------
    name
        The pass in two words.
    apply
        Returns the rewritten nodes. Its further arguments, which most passes ignore, tell whether
        the chunks of the wanted nodes must stay, and whether operations are fused.
    explain
        Describes the changes from the first nodes to the second ones, and says with figures why
        there are none; its third argument tells whether the chunks must stay.
    keeps_chunks
        Whether the chunks of the wanted nodes stay in any case.
    """

    name: str
    apply: Callable[[Nodes, bool, bool], Nodes]
    explain: Callable[[Nodes, Nodes, bool], str]
    keeps_chunks: bool = True


#: Equal nodes are merged once more where moves have made some.
PASSES: list[ExprPass] = [
    ExprPass("merge equal", merge_equal, explain_merges),
    ExprPass("views down", views_down, explain_moves),
    ExprPass("rechunks down", rechunks_down, explain_rechunks),
    ExprPass("reshapes down", reshapes_down, explain_reshapes),
    ExprPass("merge equal", merge_equal, explain_merges),
    ExprPass("wide blocks", wide_blocks, explain_wide, keeps_chunks=False),
    ExprPass("fuse", fuse, explain_groups, keeps_chunks=False),
]


def optimize(wanted: Nodes, keep: bool = True, fusion: bool = True) -> Roots:
    """Return the nodes to lower for some wanted nodes.

    Parameters
    ----------
    wanted
        Nodes.
    keep
        Their chunks must stay as they are.
    fusion
        False: every operation becomes tasks of its own.
    """
    nodes = Roots(wanted)
    hand_down(nodes.order)
    for node in nodes.order:
        for watch in node.watches:
            _verify(watch, node)
    check_if_on(nodes, nodes, keep)
    seen: dict[str, Roots] = {}
    log = plan.pass_log()
    for rewrite in PASSES:
        if seen.get(rewrite.name) is not nodes:
            before, made = nodes, rewrite.apply(nodes, keep, fusion)
            nodes = seen[rewrite.name] = nodes if are_same(made, nodes) else Roots(made)
            if log is not None:
                plan.log_pass(log, rewrite.name, rewrite.explain, before, nodes, keep)
            if nodes is not before:
                check_if_on(before, nodes, keep or rewrite.keeps_chunks)
    last = list(nodes)
    if keep:  # a view that moved down may have other chunks than it had on top
        last = [in_chunks(new, node.chunks) for new, node in zip(nodes, wanted, strict=True)]
    for new, node in zip(last, wanted, strict=True):
        same_line(new, node)
    if not are_same(last, nodes):
        nodes = Roots(last)
    check_if_on(wanted, nodes, keep)
    return nodes


def check_if_on(before: Nodes, after: Nodes, keep: bool) -> None:
    """Check what passes made of some nodes: in tests, and where LAZYFLOW_CHECK says so."""
    if plan.check_plan is not None:
        from lazyflow.array.passes import spec

        spec.check_pass(before, after, keep)


def _verify(watch: Watch, node: Expr) -> None:
    """Raise InputMutated if an array that a node reads was written into since it was made."""
    if not watch.has_changed():
        return
    place = ""
    if node.line is not None:
        code, at = node.line
        place = f" Made at {code.co_filename}:{line_of(code, at)} in {code.co_qualname}"
    raise InputMutated(
        f"the program wrote into an array ({watch.array.dtype}, shape {watch.array.shape}) after "
        f"an expression ({node.name}) was made of it and before that was computed. Operands of up "
        f"to {format_bytes(COPIED_UP_TO)} are copied when an expression is made, larger ones are "
        f"read in place: give it a copy, x + b.copy(), or compute before the array is filled "
        f"again. To read the values at the time of the computation: x + la.from_array(b).{place}"
    )


def explain_passes(wanted: Nodes, keep: bool = True, fusion: bool = True) -> str:
    """Return a line for each pass with its changes to some wanted nodes."""
    nodes: Nodes = Roots(wanted)
    words = []
    for rewrite in PASSES:
        before, nodes = nodes, Roots(rewrite.apply(nodes, keep, fusion))
        words.append(f"{rewrite.name}: {rewrite.explain(before, nodes, keep)}")
    return "\n".join(words)
