"""Names, times and shares as short text, without characters that would do anything; tables of them.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from html import escape

_LONGEST = 80  # characters of a name
_LONGEST_PLACE = 120  # of a place


def shown(text: str, most: int = _LONGEST) -> str:
    """Return a text as one line of at most `most` printable characters.

    Control characters, surrogates and marks that turn the direction of text are replaced; writers
    of HTML escape its special characters.

    >>> shown("load\\x00 \\u202e"), len(shown("x" * 1_000_000))
    ('load� �', 80)
    """
    cut = _printable(str.__str__(text)[: most + 1])
    return cut if len(cut) <= most else cut[: most - 1] + "…"


def shown_end(text: str, most: int = _LONGEST_PLACE) -> str:
    """Return likewise the end of a text, such as a place: its line stands there.

    >>> shown_end("folder/" * 100 + "main.py:3 in load", 20)
    '…r/main.py:3 in load'
    """
    cut = _printable(str.__str__(text)[-most - 1 :])
    return cut if len(cut) <= most else "…" + cut[1 - most :]


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\n\t" else "\ufffd" for c in text)


def seconds(time: float) -> str:
    """Return a duration with three digits.

    >>> seconds(1.2345), seconds(0.0123), seconds(4.5e-6), seconds(0.0)
    ('1.23 s', '12.3 ms', '4.5 µs', '0 s')
    """
    if time <= 0:
        return "0 s"
    unit, scale = "µs", 1e6
    if time >= 0.9995e-3:
        unit, scale = ("ms", 1e3) if time < 0.9995 else ("s", 1.0)
    value = time * scale
    return f"{value:,.0f} {unit}" if value >= 999.5 else f"{value:.3g} {unit}"


def percent(share: float | None) -> str:
    """Return a share in percent, nothing for an unknown one.

    >>> percent(0.254), percent(None)
    ('25%', '')
    """
    return "" if share is None else f"{100 * share:.0f}%"


def table_text(
    headline: str, lines: Sequence[tuple[str, ...]], left: Container[str]
) -> str:
    """Return a headline and a table as text.

    Parameters
    ----------
    lines
        The heads of the columns, then the texts of each row; empty without rows.
    left
        Heads of columns whose texts begin at the left; those of others end at the right.

    >>> print(table_text("2 tasks", [("name", "calls"), ("load", "12")], ["name"]))
    2 tasks
    name  calls
    load     12
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = [
        "  ".join(
            text.ljust(width) if head in left else text.rjust(width)
            for head, text, width in zip(lines[0], line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join([headline, *table])


def table_html(headline: str, lines: Sequence[tuple[str, ...]], left: Container[str]) -> str:
    """Return the same as HTML."""

    def row(texts: tuple[str, ...], tag: str) -> str:
        cells = (
            f'<{tag} style="text-align: {"left" if head in left else "right"}; padding: 2px 8px">'
            f"{escape(text)}</{tag}>"
            for head, text in zip(lines[0], texts, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    body = "".join(row(texts, "td" if at else "th") for at, texts in enumerate(lines))
    return f"<p>{escape(headline)}</p><table>{body}</table>"
