"""A chunked array in a notebook: its sizes in a table, and a picture of its chunks."""

from __future__ import annotations

from html import escape
from itertools import accumulate
from math import isnan
from typing import Any

from lazyflow.store.sizes import format_bytes

_LONGEST = 120  # pixels of the longest side
_SHORTEST = 12  # and of the shortest
_MOST_LINES = 24  # cuts that are drawn along one side; more are shown as a shade
_DEPTH = 0.45  # of the third axis, by how much it goes to the side


def array_html(x: Any) -> str:
    """Return HTML for a chunked array."""
    shape, chunk = x.shape, x.chunksize
    known = None not in shape
    dtype = x.expr.known_dtype  # to find it out may take a call of the user's function
    each = float("nan") if dtype is None else dtype.itemsize
    rows = [
        ("Bytes", _bytes(_size(shape) * each), _bytes(_size(chunk) * each)),
        ("Shape", _shape(shape), _shape(chunk)),
        ("Chunks", f"{x.npartitions:,}", ""),
        ("Type", f"{dtype or '?'}", ""),
    ]
    table = "".join([
        '<table style="border-collapse:collapse;text-align:left" cellpadding="4">',
        "<tr><th></th><th>Array</th><th>Chunk</th></tr>",
        *(f"<tr><th>{name}</th><td>{escape(whole)}</td><td>{part}</td></tr>"
          for name, whole, part in rows),
        "</table>",
    ])
    picture = _picture(x.chunks) if known and x.ndim else ""
    name = escape(f"lazyflow.Array {x.expr.name}")
    return (
        f'<div><div style="font-weight:bold;margin-bottom:4px">{name}</div>'
        f'<div style="display:flex;gap:24px;align-items:center">{table}{picture}</div></div>'
    )


def _size(shape: tuple[Any, ...]) -> Any:
    size = 1
    for n in shape:
        if n is None:
            return float("nan")
        size *= n
    return size


def _bytes(count: float) -> str:
    return "?" if isnan(count) else format_bytes(int(count))


def _shape(shape: tuple[Any, ...]) -> str:
    shown = ", ".join("?" if n is None else f"{n}" for n in shape)
    return f"({shown}{',' if len(shape) == 1 else ''})"


def _lengths(shape: list[int]) -> list[float]:
    """Return pixels for lengths: in proportion, but no side too short to be seen."""
    longest = max([*shape, 1])
    return [max(_LONGEST * n / longest, _SHORTEST) for n in shape]


def _cuts(chunks: tuple[int, ...], pixels: float) -> list[float]:
    n = sum(chunks) or 1
    cuts = [0, *accumulate(chunks)]
    if len(cuts) > _MOST_LINES:
        step = -(-len(cuts) // _MOST_LINES)
        cuts = [*cuts[::step], n]
    return [pixels * at / n for at in cuts]


def _picture(chunks: tuple[tuple[int, ...], ...]) -> str:
    """Draw the last three axes, and count the axes before them in a note."""
    shown = chunks[-3:]
    pixels = _lengths([sum(sizes) for sizes in shown])
    if len(shown) == 1:
        shown, pixels = ((1,), *shown), [_SHORTEST * 2, *pixels]
    depth = pixels[0] * _DEPTH if len(shown) == 3 else 0.0
    height, width = pixels[-2:]
    drawn = "".join(
        f'<path d="M{a:.1f} {b:.1f} L{c:.1f} {d:.1f}"/>'
        for a, b, c, d in _borders(shown, pixels, depth)
    )
    return (
        f'<svg width="{depth + width + 60:.0f}" height="{depth + height + 40:.0f}" '
        'style="overflow:visible">'
        f'<g fill="#8bb8d8" fill-opacity="0.55" stroke="none">{_faces(height, width, depth)}</g>'
        f'<g fill="none" stroke="#2b5d80" stroke-width="0.8">{drawn}</g>'
        '<g font-size="11" font-family="sans-serif" fill="currentColor">'
        f"{_texts(chunks, height, width, depth)}</g></svg>"
    )


def _borders(
    shown: tuple[tuple[int, ...], ...], pixels: list[float], depth: float
) -> list[tuple[float, float, float, float]]:
    """Return the lines between chunks, each as x and y of its ends."""
    height, width = pixels[-2:]
    across, down = _cuts(shown[-2], height), _cuts(shown[-1], width)
    lines = [(depth, depth + y, depth + width, depth + y) for y in across]
    lines += [(depth + x, depth, depth + x, depth + height) for x in down]
    if depth:
        for back in _cuts(shown[0], pixels[0]):
            at = depth - back * _DEPTH
            lines += [(at, at, at + width, at), (at, at, at, at + height)]
        lines += [(depth + x, depth, x, 0) for x in down]
        lines += [(depth, depth + y, 0, y) for y in across]
    return lines


def _faces(height: float, width: float, depth: float) -> str:
    """Return the front, and for three axes the top and the left side."""
    front = f'<rect x="{depth:.1f}" y="{depth:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
    if not depth:
        return front
    return front + (
        f'<path d="M0 0 L{depth:.1f} {depth:.1f} L{depth + width:.1f} {depth:.1f} '
        f'L{width:.1f} 0 Z M0 0 L{depth:.1f} {depth:.1f} L{depth:.1f} {depth + height:.1f} '
        f'L0 {height:.1f} Z"/>'
    )


def _texts(
    chunks: tuple[tuple[int, ...], ...], height: float, width: float, depth: float
) -> str:
    """Return the lengths of the axes, and a note on axes that are not drawn."""
    lengths = [sum(sizes) for sizes in chunks[-3:]]
    texts = [_text(depth + width / 2, depth + height + 16, lengths[-1], ' text-anchor="middle"')]
    if len(lengths) > 1:
        texts.append(_text(depth + width + 6, depth + height / 2 + 4, lengths[-2]))
    if depth:
        texts.append(_text(0, height + depth / 2 + 22, lengths[0]))
    more = len(chunks) - 3
    if more > 0:
        note = f'and {more} more {"axis" if more == 1 else "axes"} before'
        texts.append(_text(0, depth + height + 34, note))
    return "".join(texts)


def _text(x: float, y: float, text: object, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{text}</text>'
