"""What arrays show: repr, HTML with a picture of the chunks, drawings of tasks, progress."""

import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import lazyflow
import lazyflow.array as la
from lazyflow import ProgressBar
from lazyflow.diagnostics.array_html import array_html


def html_of(x):
    """Parse what a notebook shows; it must be well-formed."""
    return ET.fromstring(x._repr_html_())


def cells(x):
    return [[cell.text or "" for cell in row] for row in html_of(x).iter("tr")]


def texts(x):
    return [each.text for each in html_of(x).iter("text")]


def lines(x):
    """The cuts that are drawn."""
    groups = list(html_of(x).find(".//svg"))
    return len(list(groups[1]))


def test_the_table_has_sizes_of_the_array_and_of_a_chunk():
    x = la.zeros((1000, 300), dtype="f4", chunks=(400, 300))
    assert cells(x) == [
        ["", "Array", "Chunk"],
        ["Bytes", "1.2 MB", "480 kB"],
        ["Shape", "(1000, 300)", "(400, 300)"],
        ["Chunks", "3", ""],
        ["Type", "float32", ""],
    ]
    assert html_of(x)[0].text == "lazyflow.Array full"
    assert cells(la.arange(3))[1] == ["Bytes", "24 bytes", "24 bytes"]
    assert cells(la.arange(3))[2] == ["Shape", "(3,)", "(3,)"]


def test_a_dtype_that_is_not_known_is_not_found_out_to_show_the_array():
    def never(block):
        raise AssertionError("a look at an array calls nothing")

    x = la.ones((4, 4), chunks=2).map_blocks(never)
    assert [row[1] for row in cells(x)][1:] == ["?", "(4, 4)", "4", "?"]


def test_the_picture_has_the_cuts_and_the_lengths():
    assert texts(la.ones((4, 6), chunks=2)) == ["6", "4"]
    assert lines(la.ones((4, 6), chunks=2)) == 3 + 4
    assert texts(la.ones(7, chunks=3)) == ["7"]
    assert lines(la.ones(7, chunks=3)) == 2 + 4
    assert texts(la.ones((2, 3, 4), chunks=1)) == ["4", "3", "2"]
    assert texts(la.ones((9, 8, 2, 3, 4))) == ["4", "3", "2", "and 2 more axes before"]
    assert texts(la.ones((9, 2, 3, 4)))[-1] == "and 1 more axis before"


def test_many_chunks_are_drawn_as_a_few_lines():
    assert lines(la.ones((10_000, 10), chunks=(1, 10))) <= 30 + 2


@pytest.mark.parametrize("x", [
    la.asarray(3), la.ones((0, 4)), la.ones(0), la.ones((5, 0, 2)), la.ones((1, 1, 1)),
    la.ones((10**9, 10**9), chunks=10**8), la.asarray(["<a>", "&"]),
], ids=["0d", "empty-rows", "empty", "empty-middle", "ones", "huge", "text"])
def test_every_shape_gives_well_formed_html(x):
    assert cells(x)[0] == ["", "Array", "Chunk"]
    assert html_of(x).find(".//svg") is not None or x.ndim == 0


def test_an_array_is_called_as_what_made_it():
    x = la.ones((4, 6), chunks=2)
    names = [repr(each).partition("<")[2].partition(",")[0] for each in (
        x, x + 1, x.sum(), x.std(0), x.mean(1, keepdims=True), x[1], x.T, x.sum(0)[1:], x @ x.T,
    )]
    assert names == [
        "full", "add", "sum", "std", "mean", "getitem", "transpose", "getitem", "matmul",
    ]
    assert html_of(x.sum())[0].text == "lazyflow.Array sum"


def test_what_is_not_known_is_shown_as_such():
    x = la.arange(6, chunks=3)
    y = x[x > 2]
    assert repr(y).endswith("shape=(?,), dtype=int64, chunksize=(?,)>")
    assert cells(y)[1:3] == [["Bytes", "?", "?"], ["Shape", "(?,)", "(?,)"]]
    assert html_of(y).find(".//svg") is None


def test_a_name_is_escaped_and_nothing_is_computed():
    def fails(block):
        raise AssertionError

    x = la.map_blocks(fails, la.ones(3), dtype=float, name="<b>")
    assert "&lt;b&gt;" in array_html(x)


def test_the_first_argument_of_a_drawing_is_its_file(tmp_path):
    picture = la.ones(4, chunks=2).visualize(str(tmp_path / "graph.svg"))
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8") == picture.data


def test_a_drawing_names_operations_blocks_and_lines():
    x = la.from_array(np.ones((600, 600)), chunks=300)  # too large to be put together
    y = (x + 1).map_blocks(np.sqrt)
    svg = y.visualize()._repr_svg_()
    labels = re.findall(r"<text[^>]*>([^<]+)<", svg)
    assert sorted(labels) == ["add"] * 4 + ["sqrt"] * 4
    assert "add(block (0, 1), ndarray(600, 600) float64)" in svg
    assert "test_array_shown.py" in svg
    assert "lowering.py" not in svg
    assert lazyflow.visualize(x + 1, y.sum())._repr_svg_().count("sum-merge") > 0


def test_a_progress_bar_counts_tasks_of_arrays():
    pytest.importorskip("tqdm")
    shown = io.StringIO()
    with ProgressBar(file=shown):
        la.ones(8, chunks=2).map_blocks(np.sqrt).sum().compute()
    done, total = re.findall(r"(\d+)/(\d+)", shown.getvalue())[-1]
    assert done == total != "0"
