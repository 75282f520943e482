"""The options of an actor, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lazyflow import config
from lazyflow.api.run_options import OF_ENGINES, SchedulerLike
from lazyflow.schedulers.actors.calls import Checkpoint


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """The options of an actor, checked."""

    scheduler: SchedulerLike | None = None
    name: str | None = None
    get_if_exists: bool = False
    max_concurrency: int | None = None
    restarts: int = 0
    checkpoint: Any = None
    checkpoint_every: int = 1
    mutates: bool = True

    def __post_init__(self) -> None:
        if self.name is not None and not (isinstance(self.name, str) and self.name):
            raise TypeError(f"name must be a text that is not empty; got {self.name!r}")
        if self.get_if_exists and self.name is None:
            raise ValueError(
                "get_if_exists=True asks for an actor by name; pass name= as well"
            )
        if self.max_concurrency is not None:
            _check_count("max_concurrency", self.max_concurrency, 1)
        if not isinstance(self.mutates, bool):
            raise TypeError(f"mutates must be True or False; got {self.mutates!r}")
        _check_count("restarts", self.restarts, 0)
        _check_count("checkpoint_every", self.checkpoint_every, 1)

    @classmethod
    def of(cls, given: dict[str, Any]) -> ActorSettings:
        """Return the options that `actor` was given as keywords."""
        for word in given:
            if word not in cls.__slots__:
                hint = _ELSEWHERE.get(word) or config.nearest(word, cls.__slots__)
                raise TypeError(f"actor() got an unexpected keyword {word!r}{hint}")
        return cls(**given)


#: Keywords of other libraries, and what to type here instead.
_ELSEWHERE = OF_ENGINES | {
    "resources": "; with dask.annotate(resources=...), or config.set(ray_options=...), the engine "
    "gets them as they are.",
    "workers": "; with dask.annotate(workers=...): distributed gets it as it is.",
    "max_restarts": "; it is called restarts here.",
    "max_task_retries": "; a call that ended its process is not run again, since it may have "
    "done a part of its work: catch WorkerDied, and call again.",
    "lifetime": "; an actor lives as long as a handle on it, or its name, is held.",
    "num_workers": "; it is called max_concurrency here.",
}


def _check_count(word: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{word} must be a whole number, {least} or more; got {value!r}")


def checkpoint_of(cls: type, settings: ActorSettings) -> Checkpoint | None:
    """Return how the state of an actor is saved and restored; None without a checkpoint."""
    given = settings.checkpoint
    if given is None:
        return None
    if isinstance(given, str):
        pair: Any = (given, "set_" + given.removeprefix("get_"))
    else:
        pair = given
    if not (isinstance(pair, tuple | list) and len(pair) == 2):
        raise TypeError(
            "checkpoint must be the name of a method that returns the state, such as 'get_state' "
            "(then set_state restores it), or two: (save, load), names or functions; got "
            f"{given!r:.100}"
        )
    for each in pair:
        if isinstance(each, str) and not callable(getattr(cls, each, None)):
            raise TypeError(
                f"checkpoint={given!r} needs a method {each!r}, which {cls.__name__} does not have"
            )
        if not isinstance(each, str) and not callable(each):
            raise TypeError(f"checkpoint has to name a method or be a function; got {each!r:.100}")
    return Checkpoint(pair[0], pair[1], settings.checkpoint_every)
