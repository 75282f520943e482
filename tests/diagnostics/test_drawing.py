"""Pictures of task graphs: valid, tidy, harmless, and clear errors."""

import re
from collections import Counter
from itertools import combinations, pairwise

import pytest
from drawing_tools import (
    SVG,
    Parsed,
    chain,
    tree,
)
from hypothesis import given
from hypothesis import strategies as st

from lazyflow.diagnostics import svg
from lazyflow.diagnostics.boxes import Vertex
from lazyflow.diagnostics.svg import to_svg
from lazyflow.diagnostics.visualize import draw


def edges_of(nodes):
    return {(source, index) for index, node in enumerate(nodes) for source in node.inputs}


def check_tidy(nodes, rankdir="TB"):
    """All that holds for every picture; returns it parsed."""
    picture = Parsed(to_svg(nodes, rankdir=rankdir))
    assert sorted(picture.boxes) == list(range(len(nodes)))
    for left, top, right, bottom in picture.boxes.values():
        assert left > 0 and top > 0 and right < picture.width and bottom < picture.height
    boxes = sorted(picture.boxes.values())
    for i, (_, top, right, bottom) in enumerate(boxes):
        for other in boxes[i + 1 :]:
            if other[0] >= right + 5:
                break
            assert other[1] >= bottom + 5 or other[3] <= top - 5, "boxes overlap"
    assert picture.paths == Counter(edges_of(nodes)), "every edge once"
    axis, sign = {"TB": (1, 1), "BT": (1, -1), "LR": (0, 1), "RL": (0, -1)}[rankdir]
    for (source, target), line in picture.lines.items():
        near, far = (axis, axis + 2) if sign > 0 else (axis + 2, axis)
        assert line[0][axis] == pytest.approx(picture.boxes[source][far], abs=0.11)
        assert line[-1][axis] == pytest.approx(picture.boxes[target][near], abs=0.11)
        for end, index in ((line[0], source), (line[-1], target)):
            assert end[1 - axis] == pytest.approx(picture.centre(index)[1 - axis], abs=0.11)
        along = [sign * point[axis] for point in line]
        assert all(b >= a - 0.11 for a, b in pairwise(along))
    return picture


def check_clear(picture):
    """No edge runs through a box that it does not belong to."""
    for edge, line in picture.lines.items():
        for index, (left, top, right, bottom) in picture.boxes.items():
            if index not in edge:
                assert not any(left < x < right and top < y < bottom for x, y in line)


@st.composite
def graphs(draw_one, max_nodes=30):
    count = draw_one(st.integers(0, max_nodes))
    nodes = []
    for index in range(count):
        inputs = ()
        if index:
            inputs = tuple(draw_one(st.lists(st.integers(0, index - 1), max_size=4)))
        label = draw_one(st.sampled_from(["f", "load", "a_long_name_of_a_function" * 2]))
        kind = draw_one(st.sampled_from(["task", "value", "output"]))
        nodes.append(Vertex(label, inputs, kind))
    return nodes


# --- layout


@given(graphs(), st.sampled_from(["TB", "BT", "LR", "RL"]))
def test_any_graph_is_tidy(nodes, rankdir):
    check_clear(check_tidy(nodes, rankdir))


@given(graphs(max_nodes=12))
def test_same_nodes_give_the_same_text(nodes):
    assert to_svg(nodes) == to_svg([Vertex(n.label, n.inputs, n.kind, n.title) for n in nodes])


def test_chain_of_500_is_straight():
    picture = check_tidy(chain(500))
    assert len({picture.centre(index)[0] for index in range(500)}) == 1


@pytest.mark.parametrize("rankdir", ["TB", "BT", "LR", "RL"])
def test_tree_stands_centred(rankdir):
    nodes = tree(16)
    picture = check_tidy(nodes, rankdir)
    across = 0 if rankdir in ("TB", "BT") else 1
    for index, node in enumerate(nodes):
        if node.inputs:
            places = [picture.centre(source)[across] for source in node.inputs]
            assert picture.centre(index)[across] == pytest.approx(sum(places) / 2, abs=0.2)


def test_outgoing_tree_stands_centred():
    nodes = [Vertex("split", ())] + [Vertex("part", ((i - 1) // 2,)) for i in range(1, 15)]
    picture = check_tidy(nodes)
    for index in range(7):
        places = [picture.centre(2 * index + side)[0] for side in (1, 2)]
        assert picture.centre(index)[0] == pytest.approx(sum(places) / 2, abs=0.2)


def test_trees_have_no_crossing_however_they_are_numbered():
    # leaves in bit-reversed order: the rows as given would cross
    order = [int(f"{i:04b}"[::-1], 2) for i in range(16)]
    nodes = [Vertex("load", ()) for _ in range(16)]
    nodes += [Vertex("add", (order[2 * i], order[2 * i + 1])) for i in range(8)]
    nodes += [Vertex("add", (16 + i, 20 + i)) for i in range(4)]
    picture = check_tidy(nodes)
    for row in (range(16), range(16, 24)):
        users = {s: picture.centre(t)[0] for s, t in picture.lines if s in row}
        ordered = [users[s] for s in sorted(row, key=lambda s: picture.centre(s)[0])]
        assert ordered == sorted(ordered)


def test_crossings_do_not_grow_with_the_numbering():
    rows = [[Vertex("x", ()) for _ in range(16)]]
    for step in (1, 2, 4, 8):
        first = 16 * (len(rows) - 1)
        rows.append([Vertex("twiddle", (first + i, first + (i ^ step))) for i in range(16)])
    nodes = [node for row in rows for node in row]
    place = [16 * (i // 16) + (i % 16 * 11 + i // 16 * 5) % 16 for i in range(len(nodes))]
    shuffled = list(nodes)
    for index, node in enumerate(nodes):
        shuffled[place[index]] = Vertex(node.label, tuple(place[i] for i in node.inputs))
    natural = [(source % 16, target % 16, target // 16) for source, target in edges_of(nodes)]
    picture = check_tidy(shuffled)
    drawn = [
        (picture.centre(source)[0], picture.centre(target)[0], picture.centre(target)[1])
        for source, target in picture.lines
    ]
    assert crossings(drawn) <= crossings(natural) < crossings_as_numbered(shuffled)


def crossings(edges):
    """How many pairs of edges (from, to, row) cross in their row."""
    return sum(
        row == other_row and (start - other_start) * (end - other_end) < 0
        for (start, end, row), (other_start, other_end, other_row) in combinations(edges, 2)
    )


def crossings_as_numbered(nodes):
    return crossings([(s % 16, t % 16, t // 16) for s, t in edges_of(nodes)])


def test_long_edges_are_straight_but_for_their_ends():
    nodes = [Vertex("chunk", (), "value"), Vertex("zeros", ()), Vertex("step", (0, 1))]
    for _ in range(6):
        last = len(nodes) - 1
        nodes += [Vertex("left", (last,)), Vertex("right", (last,))]
        nodes += [Vertex("mean", (last + 1, last + 2)), Vertex("step", (0, last + 3))]
    check_clear(check_tidy(nodes))
    curves = {
        edge: data.count("C")
        for edge, data in re.findall('data-edge="([^"]*)" d="([^"]*)"', to_svg(nodes))
    }
    assert max(curves.values()) == 2


def test_a_lean_chain_beside_a_lane_stays_straight():
    nodes = [*chain(120), Vertex("sum", tuple(range(120)))]
    picture = check_tidy(nodes)
    check_clear(picture)
    assert picture.width < 200


def test_a_value_stands_just_above_its_first_user():
    nodes = [Vertex("3", (), "value"), *(Vertex("inc", (i,) if i else ()) for i in range(8))]
    nodes.append(Vertex("mul", (0, 8)))
    picture = check_tidy(nodes)
    assert picture.centre(0)[1] == picture.centre(8)[1]


def test_wide_fan_in_is_staggered():
    nodes = [Vertex("load", ()) for _ in range(100)] + [Vertex("sum", tuple(range(100)))]
    picture = check_tidy(nodes)
    check_clear(picture)
    assert picture.width < 2_400 and picture.width < 6 * picture.height


def test_staggered_rows_in_the_middle_keep_their_edges():
    nodes = [Vertex("split", ())] + [Vertex("work", (0,)) for _ in range(80)]
    nodes += [Vertex("work", (i,)) for i in range(1, 81)] + [Vertex("sum", (0, *range(81, 161)))]
    check_clear(check_tidy(nodes))


def test_separate_parts_are_packed_in_rows():
    nodes = []
    for i in range(100):
        nodes += [Vertex(str(i), (), "value"), Vertex("inc", (2 * i,), "output")]
    picture = check_tidy(nodes)
    assert 0.4 < picture.width / picture.height < 4


def test_a_deep_graph_with_links_far_back_is_drawn_whole():
    check_tidy([Vertex("f", tuple({i - 1, i * 7919 % i, i // 3}) if i else ()) for i in range(300)])


def test_edges_beyond_the_most_bends_become_one_curve(monkeypatch):
    nodes = [*chain(8), Vertex("add", (0, 7)), Vertex("mul", (3, 8))]
    monkeypatch.setattr(svg, "MAX_BENDS", 0)
    picture = check_tidy(nodes)
    one_curve = 1 + 3 * 24  # points: out of the box, along the others, and in
    for edge in ((0, 8), (3, 9)):  # it leaves the boxes that it passes, and stays in the picture
        assert len(picture.lines[edge]) == one_curve
        reach = max(x for x, _ in picture.lines[edge])
        assert picture.boxes[8][2] < reach < picture.width


# --- boxes and texts


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]></text><![CDATA[",
    "&lt; &amp; &#60;",
    "-->' onload='x",
    "a\\nb\\N",
    "日本語 😀 é",
]


@pytest.mark.parametrize("label", HOSTILE)
def test_hostile_texts_come_out_as_text(label):
    text = to_svg([Vertex(label, (), title=label)])
    picture = Parsed(text)
    tags = {element.tag.removeprefix(SVG) for element in picture.root.iter()}
    assert tags == {"svg", "rect", "g", "title", "text"}
    assert picture.title(0) == f"{label}\n{label}"
    shown = picture.label(0)
    assert shown == label or (shown.endswith("…") and label.startswith(shown[:-1]))


@pytest.mark.parametrize(
    "char",
    ["\0", "\x1b", "\x7f", "\x85", "\ud800", "\udfff", "\ufffe", "\uffff", "\u202e", "\u2066"],
)
def test_what_xml_cannot_hold_is_replaced(char):
    text = to_svg([Vertex(f"a{char}b", (), title=f"c{char}d")])
    picture = Parsed(text.encode())
    assert picture.label(0) == "a\ufffdb"
    assert picture.title(0) == "a\ufffdb\nc\ufffdd"


@given(st.text(st.characters(), max_size=300), st.text(st.characters(), max_size=30))
def test_any_text_gives_valid_xml(label, title):
    picture = Parsed(to_svg([Vertex(label, (), title=title)]).encode())
    left, _, right, _ = picture.boxes[0]
    assert right - left <= 200


def test_long_labels_are_cut_and_whole_in_the_tooltip():
    label = "standardize_and_project_onto_components"
    picture = Parsed(to_svg([Vertex(label, (), title="made in fit.py, line 3")]))
    assert picture.label(0).endswith("…") and label.startswith(picture.label(0)[:-1])
    assert len(picture.label(0)) > 15
    assert picture.title(0) == f"{label}\nmade in fit.py, line 3"


def test_endless_texts_are_cut():
    text = to_svg([Vertex("x" * 10**6, (), title="y" * 10**6)])
    assert len(text) < 5_000
    assert Parsed(text).title(0).endswith("…")


def test_label_of_several_lines_is_shown_in_one():
    assert Parsed(to_svg([Vertex("a\n\t b", ())])).label(0) == "a b"


def test_boxes_grow_with_their_labels():
    labels = "f", "concatenate", "日本語日本語"
    picture = Parsed(to_svg([Vertex(label, ()) for label in labels]))
    short, long, wide = (right - left for left, _, right, _ in picture.boxes.values())
    assert short < long
    assert wide >= 6 * 12


def test_kinds_look_different_without_colour():
    nodes = [Vertex("a", (), kind) for kind in ("task", "value", "output")]
    boxes = [group.find(f"{SVG}rect") for group in Parsed(to_svg(nodes)).groups.values()]
    assert len({(box.get("rx"), box.get("stroke-width")) for box in boxes}) == 3
    assert len({box.get("fill") for box in boxes}) == 3


def test_background_is_explicit_and_nothing_leaks_into_the_page():
    text = to_svg(tree(4))
    background = Parsed(text).root.find(f"{SVG}rect")
    assert background.get("fill") == "#ffffff"
    assert not re.search(r"<style|<script|<marker|\bid=|class=", text)


def test_an_input_given_twice_is_one_edge():
    nodes = [Vertex("x", ()), Vertex("mul", (0, 0))]
    assert check_tidy(nodes).paths == {(0, 1): 1}
    assert "2 nodes, 1 edge," in repr(draw(nodes))


def test_empty_graph_says_so():
    picture = Parsed(to_svg([]))
    assert [text.text for text in picture.root.iter(f"{SVG}text")] == ["empty graph"]
    assert not picture.boxes
