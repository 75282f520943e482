"""Pictures of graphs that are too large to be drawn task by task, and colours."""

import re

import pytest
from drawing_tools import Parsed, chain
from hypothesis import given
from hypothesis import strategies as st
from waiting import FakeClock

import lazyflow
from lazyflow import delayed, visualize
from lazyflow.diagnostics.boxes import Vertex
from lazyflow.diagnostics.visualize import grouped


@st.composite
def graphs(draw):
    nodes = []
    for i in range(draw(st.integers(1, 30))):
        inputs = draw(st.lists(st.integers(0, i - 1), max_size=3, unique=True)) if i else []
        kind = "task" if inputs else draw(st.sampled_from(["task", "value"]))
        nodes.append(Vertex(draw(st.sampled_from("abcdefg")), tuple(inputs), kind))
    return nodes


def members(vertex):
    count = re.match(r"([\d,]+) (?:×|value)", vertex.label)
    return int(count[1].replace(",", "")) if count else 1


@given(graphs(), st.integers(3, 8))
def test_a_group_stands_for_each_node_and_its_inputs_come_first(nodes, most):
    found = grouped(nodes, most)
    assert len(found) <= most
    assert sum(map(members, found)) == len(nodes)
    for i, vertex in enumerate(found):
        assert all(source < i for source in vertex.inputs)
    apart = {v.label for v in nodes if v.kind == "task"}
    if len(apart) <= most - 2 and not any(v.inputs for v in nodes):
        assert {v.label.split(" × ")[-1] for v in found if v.kind == "task"} == apart


def test_levels_of_a_tree_are_told_apart():
    nodes = [Vertex("load", (), title=f"load({i})") for i in range(8)]
    for start, count in ((0, 8), (8, 4), (12, 2)):
        nodes += [Vertex("add", (start + i, start + i + 1)) for i in range(0, count, 2)]
    found = grouped(nodes, 10)
    assert [(v.label, v.inputs) for v in found] == [
        ("8 × load", ()), ("4 × add", (0,)), ("2 × add", (1,)), ("add", (2,)),
    ]
    assert found[0].title == "the first: load(0)"


def test_functions_that_take_turns_share_a_box():
    nodes = [Vertex("start", ())]
    nodes += [Vertex("even" if i % 2 else "odd", (i,)) for i in range(100)]
    nodes.append(Vertex("end", (100,), "output"))
    found = grouped(nodes, 50)
    assert [(v.label, v.inputs, v.kind) for v in found] == [
        ("start", (), "task"), ("100 × odd, even", (0,), "task"), ("end", (1,), "output"),
    ]
    assert found[1].title.startswith("50 × odd\n50 × even\nthe first: ")


def test_of_many_functions_the_rarest_share_a_box():
    nodes = [Vertex(f"f{i % 90}", ()) for i in range(180)] + [Vertex("g", ())] * 9
    found = grouped(nodes, 5)
    assert [vertex.label for vertex in found][:2] == ["2 × f0", "2 × f1"]
    assert sum(map(members, found)) == 189


def test_more_than_500_tasks_are_drawn_in_groups():
    parts = [delayed(abs)(delayed(int)(i)) for i in range(300)]
    picture = visualize(delayed(sum)(parts))
    assert picture.summary == "3 nodes, 2 edges"
    drawn = Parsed(picture.data)
    assert [drawn.label(i) for i in range(3)] == ["300 × int", "300 × abs", "sum"]
    assert len(Parsed(visualize(delayed(sum)(parts[:200])).data).boxes) == 401


def fills(picture):
    return [fill for fill, kind in re.findall(r'fill="(#\w{6})" stroke="(#\w{6})"', picture.data)]


def test_colours_are_those_of_functions():
    x, y = delayed(abs)(-1), delayed(abs)(-2)
    first, second, total = fills(visualize(x + y, color="function"))
    assert first == second != total


def test_colours_tell_the_order():
    chained = delayed(abs)(-1)
    for _ in range(4):
        chained = delayed(abs)(chained)
    picture = visualize(chained, color="order")
    assert len(set(fills(picture))) == 5
    assert "task 5 of 5" in picture.data
    plain = visualize(chained)
    assert len(set(fills(plain))) == 2  # tasks, and the output


def test_colours_tell_the_time_that_calls_took(monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr("lazyflow.schedulers.core.observing.perf_counter", clock)

    def first(x):
        clock.now += 1
        return x

    chained = delayed(abs)(delayed(first)(1))
    with lazyflow.profile() as p:
        chained.compute()
    slow, quick = fills(picture := visualize(chained, color="time", profile=p))
    assert slow == "#f4afaf" and quick != slow
    assert "on average of 1 call" in picture.data
    with lazyflow.profile() as other:
        pass
    assert len(set(fills(visualize(chained, color="time", profile=other)))) == 2


def test_an_unknown_colour_is_refused():
    with pytest.raises(ValueError, match=r"color='red' is not known: .* 'function', 'order'"):
        visualize(delayed(abs)(1), color="red")
    with pytest.raises(ValueError, match=r"color='time' and profile= come together: with lazyflow"):
        visualize(delayed(abs)(1), color="time")


def test_a_chain_of_one_function_is_one_box():
    assert [vertex.label for vertex in grouped(chain(600), 100)][-1].startswith("600 ×")


def test_the_graph_is_drawn_as_it_was_written_unless_asked():
    f = delayed(abs, pure=True)
    twice = [f(-1), f(-1)]
    assert visualize(twice).summary == "2 nodes, 0 edges"
    assert visualize(twice, optimize_graph=True).summary == "1 node, 0 edges"
