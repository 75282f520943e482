"""`Advice`: one piece of it."""

from __future__ import annotations

from dataclasses import dataclass

from lazyflow.diagnostics.profiling.evidence import Evidence

_SHARE = 0.2  # of the block's time, below which a rule says nothing
_LEAST = 0.1  # seconds, likewise

#: Runs of one line, or tasks of one function, that make a habit.
OFTEN = 10


@dataclass(frozen=True, repr=False)
class Advice:
    """A piece of advice; as text, what was seen, why it costs, and the line to type.

    Attributes
    ----------
    rule
        The name of the rule.
    seen
        What was seen, with figures.
    why
        Why it costs time.
    do
        The line to type instead.
    place
        The line of the program that it is about.
    """

    rule: str
    seen: str
    why: str
    do: str
    place: str

    def __str__(self) -> str:
        return f"{self.seen} ({self.place}) - {self.why} - {self.do}"

    __repr__ = __str__


def matters(evidence: Evidence, time: float) -> bool:
    """Tell whether seconds are a good part of the block, and enough for a person to notice."""
    return time >= max(_LEAST, _SHARE * evidence.seconds)
