"""What runs, values and actors need of an engine; `EngineConnection` and its subclasses give it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from lazyflow.graph.options import Options
from lazyflow.schedulers.cluster.outcome import GroupOutcome


class HeldValue(Protocol):
    """A value that an engine keeps: an `EngineResult`, or a `Put`."""

    engine: Engine
    handle: Any
    number: int


@runtime_checkable
class StepOwner(Protocol):
    """Something whose steps the engine's thread does: it gets the error when one of them fails."""

    def cancel(self, error: BaseException) -> None:
        """End with an error."""


class Engine(Protocol):
    """A connection to one cluster, and the thread that decides what goes there.

    packed_functions
        Digest and payload of functions, each pickled once while it lives.
    costs
        Seconds that a call takes, by digest of the function.
    gives_short
        Whether all its results were short so far, as those are that come with reports.
    has_priorities
        Of what was handed over, higher priorities go first; else it is kept back for that.
    closing
        Nothing that is posted will be done.
    post_end
        A function of C: the callback of weak references whose `then` is a step.
    """

    packed_functions: Any
    costs: OrderedDict[bytes, float]
    gives_short: OrderedDict[bytes, bool]
    has_priorities: bool
    closing: bool
    post_end: Callable[[Any], None]

    def post(self, step: Callable[..., None], *details: Any) -> None:
        """Have a step done by the engine's thread. Never locks."""

    def translated(self, error: BaseException) -> BaseException:
        """Return an error of the engine as the caller should see it."""

    # -- values -----------------------------------------------------------------------------

    def holds(self, value: Any) -> bool:
        """Tell whether a value is one that this engine keeps."""

    def send(self, outcome: GroupOutcome) -> Any:
        """Have a value kept; return its handle."""

    def is_lost(self, handle: Any) -> bool:
        """Tell whether what a handle stands for is gone."""

    def bring(self, results: Sequence[Any]) -> None:
        """Fetch the outcomes of those results that have no short value."""

    def token(self, handle: Any) -> Any:
        """Return what an actor fetches a value by."""

    # -- groups of tasks ----------------------------------------------------------------------

    def learn(self, digest: bytes, count: int, seconds: float) -> None:
        """Note what calls of a function took."""

    def learn_size(self, digest: bytes, is_short: bool) -> bool:
        """Note whether a result of a function was short; tell whether that is new."""

    def width(self) -> int:
        """Return how many tasks the workers can run at once."""

    def refusal_of(self, options: Options) -> str:
        """Return why tasks with these resources and workers can't be run; empty: they can."""

    def new_handle(self, group: Any) -> Any:
        """Return what will stand for a group that is about to be submitted."""

    def submit(self, submissions: Sequence[Any]) -> None:
        """Hand groups over."""

    def give_up(self, run: Any, groups: Sequence[Any]) -> None:
        """Give groups up, those that are running too."""

    def running(self, run: Any) -> list[tuple[str, int]]:
        """Return worker and number of the task for what runs now of a run."""
