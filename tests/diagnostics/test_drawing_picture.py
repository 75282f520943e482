"""Pictures as they are drawn: limits, errors, files, graphviz."""

import os
import sys
from dataclasses import FrozenInstanceError

import pytest
from drawing_tools import (
    Parsed,
    chain,
    tree,
)

import lazyflow
from lazyflow.diagnostics.boxes import Vertex
from lazyflow.diagnostics.svg import to_svg
from lazyflow.diagnostics.visualize import Picture, draw

# --- limits and errors


def test_500_nodes_are_drawn_and_501_are_not():
    assert len(Parsed(to_svg(chain(500))).boxes) == 500
    nodes = [Vertex("1", (), "value"), *(Vertex("f", (0,)) for _ in range(1_500))]
    with pytest.raises(ValueError, match=r"1,500 tasks and 1 value; .* takes 500 nodes") as caught:
        to_svg(nodes)
    for advice in ("a part of the graph", "smaller graph", "engine='graphviz'"):
        assert advice in str(caught.value)


def test_the_limit_can_be_chosen():
    assert len(Parsed(to_svg(chain(600), max_tasks=600)).boxes) == 600
    with pytest.raises(ValueError, match=r"3 tasks and 0 values; .* takes 2 nodes"):
        to_svg(chain(3), max_tasks=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rankdir": "UP"}, "rankdir='UP' is not known: give one of 'TB', 'BT', 'LR', 'RL'"),
        ({"format": "gif"}, "format='gif' is not known: give one of 'svg', 'png', 'pdf'"),
        ({"engine": "neato"}, "engine='neato' is not known: give one of 'builtin', 'graphviz'"),
        ({"rankdir": "UP", "engine": "graphviz"}, "rankdir='UP' is not known"),
        ({"engine": "builtin", "format": "png"}, "engine='builtin' writes svg, not png"),
        ({"filename": "g.gif"}, "'g.gif' ends in no known format: .* '.svg', '.png', '.pdf'"),
        ({"filename": "g.svg", "format": "png"}, "'g.svg' and format='png' do not agree"),
        ({"filename": ""}, "filename='' names no file"),
    ],
)
def test_unknown_options(options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=words):
        draw(chain(2), **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("source", [1, 2, -1])
@pytest.mark.parametrize("engine", ["builtin", "graphviz"])
def test_inputs_must_be_earlier_nodes(source, engine):
    with pytest.raises(ValueError, match=rf"nodes\[1\] \('g'\) has input {source}, .* topological"):
        draw([Vertex("f", ()), Vertex("g", (source,))], engine=engine)


def test_unknown_kind():
    with pytest.raises(ValueError, match=r"nodes\[0\].kind='job' is not known: .* 'value', 'outp"):
        to_svg([Vertex("f", (), "job")])


# --- draw and its picture


@pytest.mark.parametrize(
    ("filename", "format", "written"),
    [
        ("g.svg", None, "g.svg"),
        ("g.SVG", None, "g.SVG"),
        ("g", None, "g.svg"),
        ("g", "svg", "g.svg"),
        ("g.v2", "svg", "g.v2.svg"),
    ],
)
def test_files(filename, format, written, tmp_path):
    picture = draw(tree(4), tmp_path / filename, format=format)
    assert os.listdir(tmp_path) == [written]
    assert (tmp_path / written).read_text(encoding="utf-8") == picture.data == to_svg(tree(4))
    assert picture.filename == str(tmp_path / written)
    assert repr(picture).endswith(f", written to {str(tmp_path / written)!r}>")


def test_what_is_not_lazy_is_refused(tmp_path):
    x, path = lazyflow.delayed(abs)(-1), str(tmp_path / "g.svg")
    with pytest.raises(TypeError, match=r"is no lazy value.* type: visualize\(..., filename='"):
        lazyflow.visualize(x, path)
    with pytest.raises(TypeError, match=r"visualize\(3, list of 1\) has no graph to draw: nothing"):
        lazyflow.visualize(3, [4])
    with pytest.raises(TypeError, match=r"visualize\(\) has no graph to draw"):
        lazyflow.visualize()


def test_picture_shows_itself_in_a_notebook():
    picture = draw(chain(3), rankdir="LR")
    assert type(picture) is Picture
    assert picture._repr_svg_() == to_svg(chain(3), rankdir="LR")
    assert picture._repr_png_() is None
    assert repr(picture) == (
        f"<Picture: 3 nodes, 2 edges, svg of {len(picture.data):,} characters>"
    )
    with pytest.raises(FrozenInstanceError):
        picture.data = ""


# --- graphviz


@pytest.fixture
def fake_dot(tmp_path, monkeypatch):
    """A program ``dot`` that gives back its input, so that the text sent to it can be read."""

    def install(script="exec /bin/cat"):
        program = tmp_path / "bin" / "dot"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent))

    pytest.importorskip("graphviz")
    return install


def test_png_goes_to_graphviz(fake_dot, tmp_path):
    fake_dot()
    nodes = [Vertex("<b>3</b>", (), "value"), Vertex("a & \\N\0", (0, 0), "output", 'say "x"')]
    picture = draw(nodes, tmp_path / "g.png", rankdir="LR")
    sent = picture.data.decode()
    assert picture._repr_png_() == picture.data == (tmp_path / "g.png").read_bytes()
    assert picture._repr_svg_() is None
    assert repr(picture).startswith("<Picture: 2 nodes, 1 edge, png of ")
    assert "rankdir=LR" in sent and sent.count("->") == 1
    assert 'label="<b>3</b>"' in sent  # quoted: not taken as HTML
    assert '"a &amp; \\\\N\ufffd"' in sent
    assert 'say \\"x\\"' in sent


def test_graphviz_svg_is_text_and_has_no_limit(fake_dot):
    fake_dot()
    picture = draw(chain(700), engine="graphviz")
    assert picture._repr_svg_() == picture.data
    assert picture.data.count("->") == 699
    assert picture._repr_png_() is None


def test_pdf_is_bytes_that_no_notebook_takes_for_png(fake_dot):
    fake_dot()
    picture = draw(chain(2), format="pdf")
    assert type(picture.data) is bytes
    assert picture._repr_png_() is None and picture._repr_svg_() is None


def test_what_dot_says_is_not_printed(fake_dot, capfd):
    fake_dot("echo no such font >&2; exec /bin/cat")
    draw(chain(2), format="png")
    assert capfd.readouterr() == ("", "")


def test_dot_that_fails_is_quoted(fake_dot, tmp_path):
    fake_dot("echo no such renderer >&2; exit 1")
    with pytest.raises(RuntimeError, match="'dot' could not draw pdf: no such renderer"):
        draw(chain(2), tmp_path / "g.pdf")
    assert not (tmp_path / "g.pdf").exists()


def test_missing_dot_is_named(monkeypatch, tmp_path):
    pytest.importorskip("graphviz")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"png .* program 'dot', .* not on the PATH.*'svg'"):
        draw(chain(2), format="png")


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match=r"pdf .* the package is missing. .* format='svg'"):
        draw(chain(2), format="pdf")
    with pytest.raises(ImportError, match="package 'graphviz'"):
        draw(chain(2), engine="graphviz")
    assert draw(chain(2)).format == "svg"
