"""The vertices of a drawn graph, and the texts, colours and sizes of their boxes."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

RANKDIRS = ("TB", "BT", "LR", "RL")

FONT_SIZE = 12  # px
BOX_HEIGHT = 26.0  # px
LABEL_WIDTH = 170.0  # px; a longer label is cut

# kind: (fill, border, border width, corner radius); shape and border tell the kinds apart
# without colour, and the explicit fills are readable in a dark notebook too
STYLES = {
    "task": ("#dce9fa", "#3d6cae", 1.0, 5.0),
    "value": ("#f4f0e3", "#a2977a", 1.0, BOX_HEIGHT / 2),
    "output": ("#d8f1de", "#23803f", 2.2, 5.0),
}
BACKGROUND, INK, LINE = "#ffffff", "#17202c", "#6f7b8b"

# Characters that XML can't hold (controls, surrogates, U+FFFE), or that reverse text (bidi)
_UNPRINTABLE = re.compile(
    "[^\t\n\x20-\x7e\xa0-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)


@dataclass(frozen=True, slots=True)
class Vertex:
    """A task or a value of a drawn graph: one box of the picture.

    Attributes
    ----------
    label : str
        The text of the box; a long one is cut in the box, and whole in the tooltip.
    inputs : tuple of int
        Indices of earlier nodes; one edge is drawn for each distinct index.
    kind : {"task", "value", "output"}
        A task, a literal or held result, or a task whose value is a target.
    title : str
        More lines for the tooltip.
    fill : str
        The colour of the box; empty: that of its kind.
    """

    label: str
    inputs: tuple[int, ...]
    kind: str = "task"
    title: str = ""
    fill: str = ""


def one_of(name: str, value: str, possible: Iterable[str]) -> None:
    """Raise a ValueError unless an option has one of its possible values."""
    if value not in tuple(possible):
        raise ValueError(f"{name}={value!r} is not known: give one of {listed(possible)}")


def listed(words: Iterable[str]) -> str:
    """Return quoted words, with commas between them."""
    return ", ".join(map(repr, words))


def count(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural.

    >>> count(1, "edge"), count(1200, "edge")
    ('1 edge', '1,200 edges')
    """
    return f"{number:,} {noun}" + "s" * (number != 1)


def check(nodes: Sequence[Vertex]) -> None:
    """Raise a ValueError for an unknown kind, or an input that is not an earlier node."""
    for index, node in enumerate(nodes):
        one_of(f"nodes[{index}].kind", node.kind, STYLES)
        for source in node.inputs:
            if not 0 <= source < index:
                raise ValueError(
                    f"nodes[{index}] ({node.label!r}) has input {source}, which is no earlier "
                    "node: give the nodes in topological order, inputs first"
                )


def _clean(text: str) -> str:
    return _UNPRINTABLE.sub("\ufffd", text)


def text_width(text: str) -> float:
    """Estimate the width in px, rather too wide: the font of the reader is not known here."""
    em = 0.0
    for char in text:
        if char in "fijlrtI.,:;|!'()[]{} ":
            em += 0.4
        elif unicodedata.east_asian_width(char) in "WF":
            em += 1.05
        elif unicodedata.combining(char):
            continue
        else:
            em += 0.9 if char in "mwMW@%…\ufffd" else 0.72 if char.isupper() else 0.62
    return em * FONT_SIZE


def label_of(node: Vertex) -> str:
    """Return the label as one line, cut with an ellipsis if it is too long for a box."""
    text = " ".join(_clean(node.label).split())
    if len(text) <= 200 and text_width(text) <= LABEL_WIDTH:
        return text
    text = text[:200]
    while text_width(text) + FONT_SIZE > LABEL_WIDTH:
        text = text[:-1]
    return text.rstrip() + "…"


def tooltip(node: Vertex) -> str:
    """Return the text that a reader sees when the mouse is over the box."""
    text = f"{node.label}\n{node.title}".strip()
    return _clean(text if len(text) <= 2_000 else text[:2_000] + "…")
