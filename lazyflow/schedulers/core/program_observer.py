"""`ProgramObserver`: hears also what belongs to no run, or to several."""

from __future__ import annotations

from typing import Any

from lazyflow.schedulers.core.base import AnyRun, Observer


class ProgramObserver(Observer):
    """Watches, beside runs, what the program around them does.

    Its methods are called in the thread that the program computes in, unless they say otherwise.
    """

    def arrays_planned(self, arrays: list[tuple[Any, ...]]) -> None:
        """Hear of the arrays that the next run of this thread makes.

        Each is a tuple: code and offset of the user's line; what made it; the number of its blocks
        that are computed; bytes of the largest, about.
        """

    def values_returned(self, run: AnyRun, values: list[Any]) -> None:
        """Hear what the caller of `compute` gets of a run, after its end, by outputs."""

    def call_made(self, call: Any) -> None:
        """Hear that a method of an actor is called, or its constructor: see `WatchedCall`."""

    def call_ended(self, call: Any) -> None:
        """Hear that such a call is over, in whichever thread has its outcome."""

    def work_started(self, work: Any) -> None:
        """Hear that several runs of this thread begin that are one piece of work, as a fit.

        `work` has a name and a unit, how many of these are done as count, and a text; see
        `lazyflow.api.works`.
        """

    def work_went_on(self, work: Any) -> None:
        """Hear that count and text of a piece of work have changed."""

    def work_ended(self, work: Any) -> None:
        """Hear that a piece of work is over."""
