"""The rules of expressions find those that break them; the suite checks them after every pass."""

import copy

import numpy as np
import pytest

import lazyflow.array as la
from lazyflow import delayed
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
    "there is a task": [(x.persist(scheduler="sync").expr, {"tasks": ()})],
    "a view has": [
        (x[1:].expr, {"selection": x[2:].expr.selection}),
        ((x + 1).T.expr, {"chunks": ((3, 3), (1, 3))}),
    ],
    "operations on elements": [
        ((x + 1).expr, {"inputs": (fine, (x + 1).expr.inputs[1])}), ((x + 1).expr, {"loop": ()}),
    ],
    "what a program reads": [
        (fused(x + 1), {"inputs": (fine,)}), (fused(x.sum()), {"inputs": (fine,)}),
        (fused(x + 1), {"inputs": (x.expr, x.expr)}),
    ],
    "what is reduced": [(x.var(where=x > 1).expr.inputs[0], {"inputs": (x.expr, fine)})],
    "merged reductions": [(
        optimize([x.sum(keepdims=True).expr])[0], {"inputs": (x.expr,)}
    )],
    "nodes that a tree": [(la.argmax(x, axis=0).expr, {"inputs": (x.expr, fine), "count": 2}),
                          (la.argmax(x, axis=0).expr, {"inputs": (x.expr, fine), "count": 1})],
    "what is joined": [(la.concatenate([x, x]).expr, {"inputs": (x.expr, fine)})],
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
    shared = x.cumsum(axis=0)
    assert said(shared[:1] + shared[1:2])["views down"] == "getitem stays above cumsum"
    assert said((x + 1).reshape(2, 2, 6) * 2)["reshapes down"] == "goes below add"
    twice = (x + 1).reshape(2, 2, 6) * (x + 1).sum()
    assert said(twice)["reshapes down"] == "stays above add"
    assert said((x + 1).rechunk(2).rechunk(4))["rechunks down"].startswith("1 of 1 rechunks")
    assert said(x + 1)["rechunks down"] == "no rechunk is needed less"
    assert said(x @ x.T)["wide blocks"] == "the chunks have to stay"
    assert said(x @ x.T, keep=False)["wide blocks"] == "no product that has to be wider"
    y = la.ones((800, 800), chunks=100)
    assert said(y @ y, keep=False)["wide blocks"] == "matmul has 8 x 1 blocks instead of 8 x 8"
    assert la.report(-x, explain=True).startswith("merge equal: 2 nodes, all of them different\n")


def test_the_suite_checks_expressions_after_every_pass(monkeypatch):
    broken = ExprPass("break", lambda nodes, keep, fusion: [x[1:].expr], lambda *given: "")
    monkeypatch.setattr(rewrites, "PASSES", [broken, *PASSES[1:]])
    with pytest.raises(AssertionError, match="another shape"):
        optimize([x.expr])
    monkeypatch.setattr(plan, "check_plan", None)
    assert optimize([x.expr], keep=False)[0].shape == (x.shape[0] - 1, *x.shape[1:])


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
