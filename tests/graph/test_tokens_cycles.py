"""`tokenize` on data that is deep, that shares its parts or that refers to itself."""

import copy
import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_examples import Hooked, Plain

from lazyflow.graph.tokens.tokenize import tokenize


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: [x],
        lambda x: (x,),
        lambda x: {"a": x},
        lambda x: {1: x, "a": 2},
        lambda x: Plain(a=x),
        lambda x: Hooked([x]),
    ],
    ids=["list", "tuple", "dict", "mixed dict", "object", "hook"],
)
def test_depth_is_not_limited(wrap):
    one, same, other = 0, 0, 1
    for _ in range(1000):
        one, same, other = wrap(one), wrap(same), wrap(other)
    assert tokenize(one) == tokenize(same) != tokenize(other)
    for _ in range(50_000 if type(one) in (list, dict) else 20_000):
        one = wrap(one)
    assert tokenize(one) != tokenize(other)


@pytest.mark.parametrize(
    "pair", [lambda x: [x, x], lambda x: {"a": x, "b": x}, lambda x: {(0,): x, (1,): [x]}]
)
def test_shared_parts_are_looked_at_once(pair):
    one = other = 0
    for _ in range(60):  # 2**60 places
        one = pair(one)
        other = pair(other)
    assert tokenize(one) == tokenize(other)


def test_a_row_that_is_shared_by_many_places_is_encoded_once():
    row = list(range(2000))
    rows = [row] * 2000  # 20 MB if written out
    tracemalloc.start()
    try:
        tokenize(rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_sharing_does_not_count():
    part = [1, [2]]
    assert tokenize([part, part]) == tokenize([part, copy.deepcopy(part)])


def test_a_list_that_holds_itself():
    one, same, longer, other = [], [], [], []
    one.append(one)
    same.append(same)
    longer += [longer, 1]
    other += [other, 2]
    assert tokenize(one) == tokenize(same)
    assert len({tokenize(x) for x in (one, longer, other, [], [[]], [one, 1])}) == 6


def test_a_ring_of_a_hundred_thousand_lists():
    def ring(n):
        ring = end = ["x"]
        for _ in range(n):
            ring = [ring]
        end.append(ring)
        return ring

    assert tokenize(ring(999)) == tokenize(ring(999)) != tokenize(ring(100_000))


def test_a_chain_with_links_in_both_directions():
    def chain(marks):
        nodes = [Plain(mark=i in marks) for i in range(3_000)]
        for left, right in itertools.pairwise(nodes):
            left.next, right.last = right, left
        return nodes

    nodes = chain({100, 2000})
    assert tokenize(nodes[0]) == tokenize(chain({100, 2000})[0])
    assert tokenize(nodes[0]) != tokenize(chain({100, 2001})[0])
    assert tokenize(nodes[3]) != tokenize(nodes[4])


@st.composite
def object_graphs(draw):
    """Nodes of four kinds that refer to any nodes, themselves included."""
    kinds = draw(st.lists(st.sampled_from(["list", "set", "dict", "object"]), min_size=1))
    size = len(kinds)
    edges = st.lists(st.integers(0, size - 1), max_size=3)
    return [(kind, draw(st.integers(0, 1)), draw(edges)) for kind in kinds]


class Node:
    """Hashed by identity, so that sets iterate in order of addresses."""


def built(spec):
    nodes = [Node() for _ in spec]
    for node, (kind, mark, edges) in zip(nodes, spec, strict=True):
        targets = [nodes[i] for i in edges]
        node.mark = mark
        if kind == "list":
            node.to = targets
        elif kind == "set":
            node.to = set(targets)
        elif kind == "dict":
            node.to = dict.fromkeys(targets, "value")
        else:
            node.first, node.rest = [*targets, None][0], tuple(targets[1:])
    return nodes


def unfold_alike(spec):
    """For each node its class among nodes that no walk of any length can tell apart."""
    classes = [0] * len(spec)
    for _ in range(len(spec) + 1):
        seen = []
        for kind, mark, edges in spec:
            to = [classes[i] for i in edges]
            if kind in ("set", "dict"):
                to = sorted(classes[i] for i in set(edges))
            seen.append((kind, mark, to))
        order = sorted(map(repr, seen))
        classes = [order.index(repr(each)) for each in seen]
    return classes


@given(object_graphs(), st.randoms())
def test_cycles_against_unfolding(spec, rng):
    nodes = built(spec)
    tokens = [tokenize(node) for node in nodes]
    assert [tokenize(node) for node in built(spec)] == tokens
    order = rng.sample(range(len(spec)), len(spec))
    where = {old: new for new, old in enumerate(order)}
    shuffled = [(spec[old][0], spec[old][1], [where[i] for i in spec[old][2]]) for old in order]
    assert [tokenize(node) for node in built(shuffled)] == [tokens[old] for old in order]
    together = tokenize(*nodes)
    assert tokenize(*built(spec)) == together
    assert tokenize(set(nodes)) == tokenize(set(built(shuffled)))
    classes = unfold_alike(spec)
    for i, j in itertools.combinations(range(len(spec)), 2):
        if tokens[i] == tokens[j]:
            assert classes[i] == classes[j]
