"""A search in a folder, which survives a kill at any time.

Files are written under another name and renamed, so that each is the old version or the new one;
a line of ``result.jsonl`` that a kill has cut is ignored. In the folder of the search

    experiment.json             its settings, as far as JSON can hold them
    experiment.pkl              all its settings, for `resume`
    trial_00000/params.json     the configuration and progress of the trial
    trial_00000/params.pkl      the configuration, if JSON can't hold it
    trial_00000/result.jsonl    a line for each report
    trial_00000/checkpoint_000003.pkl    the last state, reported with report 3; with
                                         ``keep_checkpoints=`` earlier states, too
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle

from lazyflow.tune.trial import FAILED, PAUSED, PENDING, RUNNING, Trial

_SETTINGS, _PARAMS, _RESULTS = "experiment.pkl", "params", "result.jsonl"


class TrialError(Exception):
    """The failure of a trial in an earlier run of a search."""


class SearchFolder:
    """The folder of a search."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def made(cls, storage: Any, name: str, settings: dict[str, Any]) -> SearchFolder:
        """Make the folder of a new search."""
        path = Path(storage).expanduser() / name
        if (path / _SETTINGS).exists():
            raise FileExistsError(
                f"there is a search in {path} already. Go on with it by "
                f"tune.resume({str(path)!r}, fn), or choose another name="
            )
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path)
        _write(path / "experiment.json", _text({k: repr(v) for k, v in settings.items()}))
        _write(path / _SETTINGS, cloudpickle.dumps(settings))
        return folder

    @classmethod
    def opened(cls, path: Any) -> tuple[SearchFolder, dict[str, Any]]:
        """Return the folder of an earlier search, and its settings."""
        path = Path(path).expanduser()
        try:
            data = (path / _SETTINGS).read_bytes()
        except FileNotFoundError:
            raise FileNotFoundError(
                f"there is no search in {path}: tune.resume takes the folder that tune.run has "
                "made, storage/name"
            ) from None
        settings: dict[str, Any] = cloudpickle.loads(data)
        return cls(path), settings

    # -- trials -----------------------------------------------------------------------------

    def note(self, trial: Trial) -> None:
        """Write the configuration and progress of a trial."""
        folder = self._folder(trial)
        folder.mkdir(exist_ok=True)
        error = None if trial.error is None else f"{type(trial.error).__name__}: {trial.error}"
        told = {
            "number": trial.number, "config": trial.config, "drawn": trial.drawn,
            "status": trial.status, "failures": trial.failures, "seconds": trial.seconds,
            "error": error,
        }
        text = _text(told)
        if json.loads(text) != told:
            _write(folder / f"{_PARAMS}.pkl", cloudpickle.dumps((trial.config, trial.drawn)))
        _write(folder / f"{_PARAMS}.json", text)

    def begin(self, trial: Trial) -> None:
        """Note that a trial begins, from its state or anew, and forget later reports."""
        self.note(trial)
        lines = [json.dumps(each, default=repr) + "\n" for each in trial.history]
        _write(self._folder(trial) / _RESULTS, "".join(lines).encode())

    def report(self, trial: Trial, metrics: dict[str, Any]) -> None:
        """Append a report."""
        with open(self._folder(trial) / _RESULTS, "ab", buffering=0) as file:
            file.write((json.dumps(metrics, default=repr) + "\n").encode())

    def keep_state(self, trial: Trial, count: int) -> None:
        """Keep the state of a trial, and earlier ones up to `count` in all."""
        assert trial.packed_state is not None
        folder = self._folder(trial)
        new = folder / f"checkpoint_{trial.kept_at:06d}.pkl"
        _write(new, trial.packed_state)
        kept = sorted(folder.glob("checkpoint_*.pkl"))
        at = kept.index(new)  # a trial that began again may have been further before
        for old in (*kept[: max(0, at + 1 - count)], *kept[at + 1 :]):
            old.unlink()

    def trials(self) -> Iterator[Trial]:
        """Yield the trials of an earlier run; unfinished ones are pending."""
        for folder in sorted(self.path.glob("trial_*")):
            try:
                told = json.loads((folder / f"{_PARAMS}.json").read_bytes())
            except FileNotFoundError:  # killed as it was made: it is made again
                continue
            config, drawn = told["config"], told["drawn"]
            packed = folder / f"{_PARAMS}.pkl"
            if packed.exists():
                config, drawn = cloudpickle.loads(packed.read_bytes())
            trial = Trial(
                told["number"], config, drawn, told["status"], failures=told["failures"],
                seconds=told["seconds"], history=_reports(folder / _RESULTS),
            )
            if trial.status == FAILED:
                trial.error = TrialError(told["error"])
            elif trial.status in (RUNNING, PAUSED):
                trial.status = PENDING
            states = sorted(folder.glob("checkpoint_*.pkl"))
            if states:
                trial.packed_state = states[-1].read_bytes()
                trial.kept_at = int(states[-1].stem.partition("_")[2])
            yield trial

    def _folder(self, trial: Trial) -> Path:
        return self.path / f"trial_{trial.number:05d}"


def _reports(path: Path) -> list[dict[str, Any]]:
    """Read reports; a line that was cut is not one."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]


def _text(told: dict[str, Any]) -> bytes:
    return json.dumps(told, indent=1, default=repr).encode()


def _write(path: Path, data: bytes) -> None:
    """Write a file so that it is the one before or this one, whenever the program is killed."""
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(data)
    os.replace(part, path)
