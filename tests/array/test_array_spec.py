"""The rules of expressions find those that break them; the suite checks them after every pass."""

import copy

import numpy as np
import pytest

import lazyflow.array as la
from lazyflow import delayed
from lazyflow.array import evaluation
from lazyflow.array.nodes.expr import Expr, LazyDtype, below
from lazyflow.array.passes import rewrites
from lazyflow.array.passes.rewrites import PASSES, ExprPass, explain_passes, optimize
from lazyflow.array.passes.spec import RULES, broken_rules, check, check_pass
from lazyflow.graph import plan

x = la.from_array(np.arange(24.0).reshape(4, 6), chunks=(2, 3))
fine = la.from_array(np.arange(24.0).reshape(4, 6), chunks=(1, 2)).expr
mask = la.from_array(np.arange(4) % 2 > 0, chunks=2)
whole = x.rechunk((4, 6)).expr


def fused(y, index=0):
    """Return a node that `y` becomes."""
    return [node for node in below(optimize([y.expr])) if type(node).__name__ == "Fused"][index]


#: Under the beginning of a rule: a node, and fields of it that break the rule.
BROKEN = {
    "a shape is": [(x.expr, {"shape": (4, 5)})],
    "every axis has": [
        ((x + 1).expr, {"chunks": ((2, 2), ())}), ((x + 1).expr, {"chunks": ((5, -1), (3, 3))}),
    ],
    "lengths that are not known": [(x[x[:, 0] > 1].expr, {"chunks": ((None, None), (3, 3))})],
    "an array in memory": [(x.expr, {"array": np.ones((4, 5))})],
    "there is a task": [
        (x.persist(scheduler="sync").expr, {"tasks": ()}),
        (x.persist(scheduler="sync").expr, {"whole": (5, 5)}),
    ],
    "a view has": [
        (x[1:].expr, {"selection": x[2:].expr.selection}),
        ((x + 1).T.expr, {"chunks": ((3, 3), (1, 3))}),
    ],
    "operations on elements": [
        ((x + 1).expr, {"inputs": (fine, (x + 1).expr.inputs[1])}), ((x + 1).expr, {"loop": ()}),
        ((x + 1).expr, {"dtype_or_lazy": np.dtype("f4")}),
    ],
    "what a program reads": [
        (fused(x + 1), {"inputs": (fine,)}), (fused(x.sum()), {"inputs": (fine,)}),
        (fused(x + 1), {"inputs": (x.expr, x.expr)}),
    ],
    "a program reads": [
        (fused(x + 1), {"inputs": ((x > 1).expr,)}),
        (fused(x + 1), {"dtype_or_lazy": np.dtype("f4")}),
    ],
    "what is reduced": [(x.var(where=x > 1).expr.inputs[0], {"inputs": (x.expr, fine)})],
    "merged reductions": [(
        optimize([x.sum(keepdims=True).expr])[0], {"inputs": (x.expr,)}
    )],
    "nodes that a tree": [(la.argmax(x, axis=0).expr, {"inputs": (x.expr, fine), "count": 2}),
                          (la.argmax(x, axis=0).expr, {"inputs": (x.expr, fine), "count": 1})],
    "what is joined": [
        (la.concatenate([x, x]).expr, {"inputs": (x.expr, fine)}),
        (la.concatenate([x, x]).expr, {"inputs": (x.expr, (x > 1).expr)}),
    ],
    "axes that are multiplied": [((x @ x.T).expr, {"inputs": (fine, x.T.expr)})],
    "these have the chunks": [(x.cumsum(axis=0).expr, {"inputs": (fine,)})],
    "other chunks are": [((x + 1).cumsum(0).rechunk(4).expr, {"inputs": (x[1:].expr,)})],
    "groups of axes": [
        ((x + 1).reshape(2, 2, 6).expr, {"inputs": (fine,)}),
        ((x + 1).reshape(2, 2, 6).expr, {"chunks": ((1, 2), (2,), (3, 3))}),
    ],
    "a mask is cut": [
        ((x + 1)[mask].expr, {"inputs": (fine, mask.expr)}),
        ((x + 1)[mask].expr, {"inputs": (x.expr, x[:, 0].expr)}),
        ((x + 1)[mask].expr, {"chunks": ((1,), (3, 3))}),
    ],
    "the axes beside": [(x.cumsum(0)[[2, 1]].expr, {"inputs": ((la.Array(fine) + 1).expr,)})],
    "each input of a function has": [
        (la.searchsorted(x.ravel(), x).expr, {"inputs": (whole, fine)}),
    ],
    "a user's function gets": [(x.map_blocks(np.copy, dtype=float).expr, {"inputs": (fine,)})],
    "each axis says how": [
        (la.overlap.overlap(x, 1, "reflect").expr, {"margins": ()}),
        (la.overlap.trim_internal(x, 1).expr, {"cuts": ((), ())}),
    ],
}


def with_fields(node, fields):
    """Return a copy of a node with other fields, which nodes themselves refuse."""
    made = copy.copy(node)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    if "shape" not in fields:
        shape = [None if None in sizes else sum(sizes) for sizes in made.chunks]
        object.__setattr__(made, "shape", tuple(shape))
    return made


@pytest.mark.parametrize("sentence", RULES)
def test_each_rule_finds_what_breaks_it(sentence):
    (cases,) = [cases for start, cases in BROKEN.items() if sentence.startswith(start)]
    for node, fields in cases:
        assert broken_rules([node]) == []
        found = broken_rules([with_fields(node, fields)])
        assert any(line.startswith(sentence) for line in found), (node, found)
        with pytest.raises(AssertionError, match="expressions are broken"):
            check([la.Array(with_fields(node, fields)).expr])


def test_a_message_has_some_of_many_nodes():
    broken = [with_fields(x.expr, {"array": np.ones(k)}) for k in range(5)]
    (found,) = broken_rules(broken)
    assert found.endswith("; and 2 more")


@pytest.mark.parametrize(("after", "words"), [
    ([], "1 nodes became 0"),
    ([x[1:].expr], "another shape"),
    ([(x > 1).expr], "another dtype"),
    ([fine], "other chunks"),
])
def test_a_pass_that_gives_another_array_is_found(after, words):
    with pytest.raises(AssertionError, match=words):
        check_pass([x.expr], after, True)


def test_a_pass_may_give_other_chunks_where_nobody_sees_them_and_find_no_dtype_out():
    check_pass([x.expr], [fine], False)
    lazy = with_fields(x.expr, {"dtype_or_lazy": LazyDtype(lambda: np.dtype("f4"))})
    check_pass([x.map_blocks(np.copy).expr], [x.map_blocks(np.copy).expr], True)
    assert lazy.known_dtype is None


# -- what passes say ------------------------------------------------------------------------------


def said(y, keep=True, fusion=True):
    """Return what each pass says of an array, by the name of the pass."""
    lines = explain_passes([y.expr], keep, fusion).splitlines()
    assert [line.split(": ")[0] for line in lines] == [each.name for each in PASSES]
    return dict(line.split(": ", 1) for line in lines)


def test_passes_say_what_they_did():
    assert said((x + 1) * (x + 1))["fuse"] == "2 operations run as 1 group"
    assert said(x.copy())["fuse"] == "there is nothing to fuse"
    twice = explain_passes([(x + 1).expr, (x + 1).expr])
    assert "of 5 nodes are equal to others, and join them" in twice
    assert said(-x)["views down"] == "no view is above an operation"
    assert said((-x)[1:].T)["views down"] == "getitem goes below negative"
    assert said((x + 1).reshape(2, 2, 6) * 2)["reshapes down"] == "goes below add"
    assert said((x + 1).rechunk(2).rechunk(4))["rechunks down"] == (
        "1 of 1 rechunks are dropped: what is below has their chunks"
    )
    assert said(x + 1)["rechunks down"] == "there is no rechunk"
    assert said(x + 1)["reshapes down"] == "there is no reshape"
    assert said(x + 1, keep=False)["wide blocks"] == "no result is a product"
    y = la.ones((800, 800), chunks=100)
    assert said(y @ y, keep=False)["wide blocks"] == "matmul has 8 x 1 blocks instead of 8 x 8"
    assert la.report(-x, explain=True).startswith("merge equal: 2 nodes, all of them different\n")


def logged(caplog, name, arrays, keep=True, fusion=True):
    """Return what the log has of a pass that ran over arrays."""
    with caplog.at_level("DEBUG", "lazyflow.passes"):
        optimize([y.expr for y in arrays], keep, fusion)
    lines = [record.getMessage() for record in caplog.records]
    return next(line for line in lines if line.startswith(name)).removeprefix(f"{name}: ")


kept, others, more = [x.persist(scheduler="sync") for _ in range(3)]
exp, sums, line = np.exp(x), x.cumsum(axis=0), x * 2 + 1


@pytest.mark.parametrize(("arrays", "words"), [
    ([sums.rechunk(4)],
     "192 bytes of cumsum are copied from 4 to 2 blocks: cumsum makes blocks in the chunks of what "
     "it reads: rechunk that instead"),
    ([(kept + 1).rechunk(4)],
     "192 bytes of add are copied from 4 to 2 blocks: kept blocks have the chunks of their "
     "persist(): rechunk before it"),
    ([exp.rechunk(4) + 1, exp * 2],
     "192 bytes of exp are copied from 4 to 2 blocks: exp has 2 users and is made once for all"),
    ([la.from_delayed(delayed(np.ones)(4), (4,), float).rechunk(2)],
     "32 bytes of ones are copied from 1 to 2 blocks: ones has the chunks that it was made with: "
     "choose them there"),
    ([(x + 1).rechunk(4), sums.rechunk(4)],
     "1 of 2 rechunks are dropped: what is below has their chunks; 192 bytes of cumsum are copied "
     "from 4 to 2 blocks: cumsum makes blocks in the chunks of what it reads: rechunk that "
     "instead"),
    ([la.concatenate([la.ones(8).persist(scheduler="sync")] * 2).rechunk(((7, 9),))],
     "1 of 1 rechunks are cut where the parts that are joined below end"),
])
def test_the_log_says_what_rechunks_copy(caplog, arrays, words):
    assert logged(caplog, "rechunks down", arrays) == words


@pytest.mark.parametrize(("arrays", "words"), [
    ([sums[:1] + sums[1:2]],
     "getitem stays above cumsum: 2 users read 12 elements of its 24, and only operations on "
     "elements are repeated"),
    ([sums[:2]],
     "getitem stays above cumsum: it can't make a part alone, and makes all 24 elements"),
    ([exp[:3] + exp[1:]],
     "getitem stays above exp: 2 users read 36 elements of its 24, and it costs more than 4 quick "
     "steps"),
    ([line[:3] + line[1:] + line[2::-1]],
     "getitem stays above add: 3 users read 54 elements of its 24, and 2 times that may be made "
     "for users alone"),
])
def test_the_log_says_why_views_stay(caplog, arrays, words):
    assert logged(caplog, "views down", arrays) == words


@pytest.mark.parametrize(("y", "words"), [
    ((kept + 1).reshape(2, 2, 6) * (kept + 1).sum(),
     "it has 2 users, which need it in different shapes"),
    ((kept + 1).reshape(2, 2, 6), "no operation above would be fused with it"),
    ((kept + others * more).reshape(2, 2, 6) * 2,
     "more than 2 arrays that it reads would be reshaped instead"),
    ((kept + others.rechunk((1, 6))).reshape(2, 2, 6) * 2,
     "it reads arrays of other chunks, or of another order in memory"),
])
def test_the_log_says_why_reshapes_stay(caplog, y, words):
    found = logged(caplog, "reshapes down", [y])
    assert found.startswith("stays above add (192 bytes in ")
    assert found.endswith(f" blocks): {words}")


def test_the_log_says_why_other_reshapes_stay(caplog):
    assert logged(caplog, "reshapes down", [sums.reshape(2, 2, 6) * 2]) == (
        "stays above cumsum (192 bytes in 4 blocks): it is no operation on elements"
    )
    caplog.clear()
    assert logged(caplog, "reshapes down", [(kept + 1).reshape(2, 2, 6) * 2], fusion=False) == (
        "stays above add (192 bytes in 4 blocks): fusion is off"
    )


@pytest.mark.parametrize(("y", "keep", "words"), [
    (x @ x.T, True, "2 x 2 blocks: x.chunks says so, and only compute() may have others"),
    (x @ x.T, False, "2 x 2 blocks: with 33.6 MB a block at most, and 4 blocks at least, 2 of "
     "columns are enough"),
    (la.ones((8, 8), chunks=(8, 4)) @ la.ones((8, 9), chunks=(8, 3)), False,
     "1 x 3 blocks: with 33.6 MB a block at most, and 4 blocks at least, 4 of columns are best, "
     "which is not twice 3"),
    (kept @ x.T, False, "2 x 2 blocks: wider ones would copy 192 bytes of rechunk, which it reads"),
    (x @ la.ones((6, 4), chunks=(3, 4)), False, "2 x 1 blocks: a block has all 4 columns"),
    (x @ x[x[:, 0] > 1].T, False, "2 x 2 blocks: it has no columns, or of unknown lengths"),
])
def test_the_log_says_why_products_keep_their_blocks(caplog, y, keep, words):
    assert logged(caplog, "wide blocks", [y], keep) == f"matmul stays in {words}"


@pytest.mark.parametrize(("arrays", "words"), [
    ([exp.cumsum(axis=0) + exp, np.sin(exp)],
     "4 operations run as 4 groups; exp is written, 192 bytes: 3 groups use it, and it costs more "
     "than 4 quick steps"),
    ([exp.map_blocks(np.copy, dtype=float)],
     "1 operation runs as 1 group; exp is written, 192 bytes: copy needs whole blocks of it"),
    ([np.exp(x[:1]) + x],
     "2 operations run as 2 groups; exp is written, 48 bytes: add stretches it to a larger shape: "
     "computed once"),
    ([exp, exp + 1],
     "2 operations run as 2 groups; exp is written, 192 bytes: its result is wanted"),
])
def test_the_log_says_which_results_are_written_between_groups(caplog, arrays, words):
    assert logged(caplog, "fuse", arrays) == words


def test_the_log_says_so_where_fusion_is_off_and_has_some_of_many_reasons(caplog):
    found = logged(caplog, "fuse", [x * 2 + 1 - 3 + 4], fusion=False)
    assert found == (
        "4 operations run as 4 groups; multiply is written, 192 bytes: fusion is off; add is "
        "written, 192 bytes: fusion is off; and 1 more"
    )


# -- when they are checked ------------------------------------------------------------------------


def test_the_suite_checks_expressions_after_every_pass(monkeypatch):
    broken = ExprPass("break", lambda nodes, keep, fusion: [x[1:].expr], lambda *given: "")
    monkeypatch.setattr(rewrites, "PASSES", [broken, *PASSES[1:]])
    with pytest.raises(AssertionError, match="another shape"):
        optimize([x.expr])
    monkeypatch.setattr(plan, "check_plan", None)
    assert optimize([x.expr], keep=False)[0].shape == (x.shape[0] - 1, *x.shape[1:])


@pytest.mark.parametrize(("last", "words"), [
    (x[1:].expr, "another shape"), (fine, "other chunks"), ((x > 1).expr, "another dtype"),
])
def test_the_last_step_after_the_passes_is_checked(monkeypatch, last, words):
    """It gives what is kept the chunks that it had."""
    monkeypatch.setattr(rewrites, "in_chunks", lambda node, chunks: last)
    with pytest.raises(AssertionError, match=words):
        optimize([(-x).expr])


def test_the_tasks_of_blocks_are_checked(monkeypatch):
    lower = evaluation.Lowering.lower
    monkeypatch.setattr(
        evaluation.Lowering, "lower", lambda *given: [tasks[1:] for tasks in lower(*given)])
    with pytest.raises(AssertionError, match="there is a task for each block.*3 tasks for 4"):
        evaluation.as_tasks([(-x).expr])


def test_every_pass_has_a_sentence_and_an_example():
    for rewrite in PASSES:
        sentence, _, rest = rewrite.apply.__doc__.partition("\n")
        assert sentence.endswith(".") or rest.lstrip().partition("\n")[0].endswith("."), rewrite
        assert ">>> " in rest, rewrite.name


def test_the_log_has_what_each_pass_did(caplog):
    with caplog.at_level("DEBUG", "lazyflow.passes"):
        optimize([(x + 1).T[1:].expr])
    lines = [record.getMessage() for record in caplog.records]
    explained = explain_passes([(x + 1).T[1:].expr]).splitlines()
    assert list(dict.fromkeys(lines)) == list(dict.fromkeys(explained))


def test_reports_are_shown_as_they_are_printed_and_are_of_arrays():
    x = la.ones((4, 4), chunks=2)
    assert repr(la.report(-x)) == str(la.report(-x)) != ""
    words = "takes chunked arrays; got a Delayed. lazyflow.optimize.x, explain=True. describes"
    with pytest.raises(TypeError, match=words):
        la.report(x, delayed(abs)(-1))


def test_nodes_cannot_be_changed_later():
    node = (x + 1).expr
    with pytest.raises(AttributeError):
        node.line = None
    with pytest.raises(AttributeError):
        node.chunks = ((4,), (6,))  # the suite refuses this: see conftest
    assert isinstance(node, Expr) and node.line[0].co_filename == __file__
