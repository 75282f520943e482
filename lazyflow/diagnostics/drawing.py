"""Pictures of task graphs: as SVG of our own, or by graphviz.

It reads plain data and knows nothing of tasks.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lazyflow.diagnostics import boxes
from lazyflow.diagnostics.boxes import Vertex
from lazyflow.diagnostics.svg import to_svg

__all__ = ["Picture", "Vertex", "draw"]

FORMATS = ("svg", "png", "pdf")
ENGINES = ("builtin", "graphviz")


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawn graph; as the last value of a notebook cell it shows itself.

    Attributes
    ----------
    data : str or bytes
        The SVG text, or the bytes of another format.
    format : {"svg", "png", "pdf"}
    summary : str
        How many nodes and edges, for the repr.
    filename : str or None
        Where it was written.
    """

    data: str | bytes = field(repr=False)
    format: str = "svg"
    summary: str = ""
    filename: str | None = None

    def __repr__(self) -> str:
        """Say what is drawn and where it went, never the data."""
        size = boxes.count(len(self.data), "character" if isinstance(self.data, str) else "byte")
        where = f", written to {self.filename!r}" if self.filename else ""
        return f"<Picture: {self.summary}, {self.format} of {size}{where}>"

    def _repr_svg_(self) -> str | None:
        return self.data if isinstance(self.data, str) else None

    def _repr_png_(self) -> bytes | None:
        return self.data if isinstance(self.data, bytes) and self.format == "png" else None


def draw(
    nodes: Sequence[Vertex],
    filename: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,
    engine: str | None = None,
    rankdir: str = "TB",
) -> Picture:
    """Draw a task graph, and write it to a file when one is named.

    Parameters
    ----------
    nodes : sequence of Vertex
        In topological order.
    filename : str or path, optional
        ``"graph.svg"``, or ``"graph"`` whose ending is then the format.
    format : {"svg", "png", "pdf"}, optional
        The ending of `filename`, else ``"svg"``.
    engine : {"builtin", "graphviz"}, optional
        ``"builtin"`` needs nothing, writes svg and takes up to 500 nodes; ``"graphviz"`` needs
        the package of that name and the program ``dot``. By default svg is built in.
    rankdir : {"TB", "BT", "LR", "RL"}
        Where the edges point: down, up, right or left.

    Raises
    ------
    ValueError
        An unknown option, or too many nodes for the built-in engine.
    ImportError, RuntimeError
        graphviz is needed and its package, or its program, is missing.

    Examples
    --------
    >>> draw([Vertex("3", (), "value"), Vertex("inc", (0,), "output")])
    <Picture: 2 nodes, 1 edge, svg of 797 characters>
    """
    path, kind = _target(filename, format)
    if engine is None:
        engine = "builtin" if kind == "svg" else "graphviz"
    boxes.one_of("engine", engine, ENGINES)
    if engine == "builtin" and kind != "svg":
        raise ValueError(
            f"engine='builtin' writes svg, not {kind}: leave engine out, or give format='svg'"
        )
    data: str | bytes
    if engine == "builtin":
        data = to_svg(nodes, rankdir=rankdir)
    else:
        data = _by_graphviz(nodes, kind, rankdir)
    if path is not None:
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    edges = sum(len(set(node.inputs)) for node in nodes)
    summary = f"{boxes.count(len(nodes), 'node')}, {boxes.count(edges, 'edge')}"
    return Picture(data, kind, summary, None if path is None else str(path))


def _target(filename: str | os.PathLike[str] | None, format: str | None) -> tuple[Path | None, str]:
    """Return where to write, with its ending, and the format."""
    if format is not None:
        boxes.one_of("format", format, FORMATS)
    if filename is None:
        return None, format or "svg"
    path = Path(filename)
    ending = path.suffix[1:].lower()
    if not path.name:
        raise ValueError(f"filename={str(filename)!r} names no file: give one such as 'graph.svg'")
    if format is None and ending and ending not in FORMATS:
        raise ValueError(
            f"filename={path.name!r} ends in no known format: end it in one of "
            f"{boxes.listed('.' + known for known in FORMATS)}, or give format="
        )
    if format is not None and ending in FORMATS and ending != format:
        raise ValueError(f"filename={path.name!r} and format={format!r} do not agree: drop one")
    kind = format or ending or "svg"
    return path if ending == kind else path.with_name(f"{path.name}.{kind}"), kind


def _by_graphviz(nodes: Sequence[Vertex], format: str, rankdir: str) -> str | bytes:
    """Draw with the program ``dot``, with the same looks."""
    boxes.one_of("rankdir", rankdir, boxes.RANKDIRS)
    boxes.check(nodes)
    instead = "The built-in svg needs neither: give format='svg' and leave engine out"
    try:
        import graphviz
    except ImportError as error:
        raise ImportError(
            f"drawing {format} by graphviz needs the Python package 'graphviz' (pip install "
            f"graphviz) and its program 'dot', and the package is missing. {instead}"
        ) from error
    graph = graphviz.Digraph(
        graph_attr={"rankdir": rankdir, "bgcolor": boxes.BACKGROUND},
        node_attr={"shape": "box", "style": "rounded,filled", "fontname": "sans-serif"},
        edge_attr={"color": boxes.LINE, "arrowsize": "0.7"},
    )
    for index, node in enumerate(nodes):  # dot reads entities in texts, so & is written as one
        fill, border, width, _ = boxes.STYLES[node.kind]
        graph.node(
            str(index),
            graphviz.escape(boxes.label_of(node).replace("&", "&amp;")),
            tooltip=graphviz.escape(boxes.tooltip(node).replace("&", "&amp;")),
            fillcolor=node.fill or fill,
            color=border,
            penwidth=str(width),
        )
        graph.edges((str(source), str(index)) for source in dict.fromkeys(node.inputs))
    try:
        data: bytes = graph.pipe(format=format, quiet=True)
    except graphviz.ExecutableNotFound as error:
        raise RuntimeError(
            f"drawing {format} by graphviz needs the program 'dot', and it is not on the PATH: "
            f"install your system's graphviz package. {instead}"
        ) from error
    except subprocess.CalledProcessError as error:
        message = (error.stderr or b"").decode(errors="replace").strip()
        raise RuntimeError(f"the program 'dot' could not draw {format}: {message}") from error
    return data.decode() if format == "svg" else data
