"""The protocol by which runs, values and actors use an engine."""

from __future__ import annotations

from abc import abstractmethod
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
    """An object whose methods are posted as steps; it is cancelled when one of them fails."""

    def cancel(self, error: BaseException) -> None:
        """End with an error."""


class Engine(Protocol):
    """A connection to one cluster, with the thread that decides which groups go there.

    packed_functions
        Digest and payload of functions, each pickled once while it lives.
    costs
        Mean seconds of a call, by digest of the function.
    gives_short
        Whether all results so far were short enough to come with reports, by digest.
    has_priorities
        Whether the cluster orders submitted groups by priority; else groups are held back.
    closing
        Whether steps that are posted now are not run any more.
    post_end
        A C function, as the callback of weak references whose `then` is a step.
    """

    packed_functions: Any
    costs: OrderedDict[bytes, float]
    gives_short: OrderedDict[bytes, bool]
    has_priorities: bool
    closing: bool
    post_end: Callable[[Any], None]

    def post(self, step: Callable[..., None], *details: Any) -> None:
        """Queue a step for the engine's thread. Never locks."""

    @abstractmethod
    def translated(self, error: BaseException) -> BaseException:
        """Return the error that the caller sees in the place of one of the engine."""

    # -- values -----------------------------------------------------------------------------

    def holds(self, value: Any) -> bool:
        """Return whether this engine keeps a value."""

    @abstractmethod
    def send(self, outcome: GroupOutcome) -> Any:
        """Send a value to the cluster; return its handle."""

    @abstractmethod
    def is_lost(self, handle: Any) -> bool:
        """Return whether the value of a handle is lost."""

    @abstractmethod
    def bring(self, results: Sequence[Any]) -> None:
        """Fetch the outcomes of those results that have no short value."""

    @abstractmethod
    def token(self, handle: Any) -> Any:
        """Return the form of a handle by which an actor fetches the value."""

    # -- groups of tasks ----------------------------------------------------------------------

    def learn(self, digest: bytes, count: int, seconds: float) -> None:
        """Update the mean time of calls of a function."""

    def learn_size(self, digest: bytes, is_short: bool) -> bool:
        """Note whether a result of a function was short; return whether it was the first."""

    @abstractmethod
    def width(self) -> int:
        """Return how many tasks the workers can run at once."""

    @abstractmethod
    def refusal_of(self, options: Options) -> str:
        """Return why tasks with these options can't run; empty if they can."""

    @abstractmethod
    def new_handle(self, group: Any) -> Any:
        """Return the handle of a group that is about to be submitted."""

    @abstractmethod
    def submit(self, submissions: Sequence[Any]) -> None:
        """Submit groups to the cluster."""

    @abstractmethod
    def give_up(self, run: Any, groups: Sequence[Any]) -> None:
        """Cancel groups, running ones too."""

    @abstractmethod
    def running(self, run: Any) -> list[tuple[str, int]]:
        """Return worker and number of each task of a run that runs now."""
