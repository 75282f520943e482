"""Journals of actors: exact wherever the process ends, and nobody else's."""

import glob
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import until

from lazyflow.schedulers.cluster.actors import journal
from lazyflow.schedulers.cluster.actors.journal import Journal


class Killed(BaseException):
    """The process ends while it writes."""


STEPS = st.lists(st.integers(0, 40), min_size=10, max_size=60)  # 0: a call begins; else ends


@settings(max_examples=300, deadline=None)
@given(steps=STEPS, window=st.integers(1, 5), ends_at=st.integers(0, 80), share=st.floats(0, 1))
def test_what_a_process_had_noted_is_read_wherever_it_ended(
    tmp_path_factory: Any, steps: list[int], window: int, ends_at: int, share: float
) -> None:
    """`share` of the last write is there. Whole steps are, and the last one may be."""
    base = str(tmp_path_factory.mktemp("base"))
    write, truncate, left = os.pwrite, os.ftruncate, iter(range(ends_at, -1, -1))

    def pwrite(fd: int, data: bytes, at: int) -> int:
        if next(left) == 0:
            if len(data) > 8:  # eight bytes of a page are there or not
                write(fd, data[: int(share * len(data))], at)
            raise Killed
        return write(fd, data, at)

    def ftruncate(fd: int, size: int) -> None:
        if next(left) == 0:
            raise Killed
        truncate(fd, size)

    right: list[journal.Entries] = [(0, [])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "_REWRITE_BYTES", 60)
        patch.setattr(Journal, "window", window)
        kept = Journal(base)
        patch.setattr(os, "pwrite", pwrite)
        patch.setattr(os, "ftruncate", ftruncate)
        number = 0
        try:
            for size in steps:
                last, answers = right[-1]
                if size == 0:
                    number += 1
                    right.append((number, answers))
                    kept.began(number)
                else:
                    right.append((last, [*answers, bytes([len(right)]) * size]))
                    kept.ended(right[-1][1][-1])
            right = right[-1:]
        except Killed:
            right = right[-2:]
    fd = journal.claimed(kept.name, base)
    assert fd is not None
    found = journal.entries(fd)
    assert found is not None
    assert any(
        found[0] == last and found[1] == answers[len(answers) - len(found[1]) :]
        and len(found[1]) >= min(window - 1, len(answers))
        for last, answers in right
    )


def test_a_file_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_REWRITE_BYTES", 10_000)
    kept = Journal(str(tmp_path))
    fd = journal.claimed(kept.name, str(tmp_path))
    assert fd is not None
    for _ in range(2000):
        kept.ended(b"x" * 100)
        assert os.fstat(fd).st_size < 60_000
    found = journal.entries(fd)
    assert found is not None
    assert set(found[1]) == {b"x" * 100} and len(found[1]) >= 64


@pytest.mark.parametrize("base", ["gone", "a file"])
def test_an_actor_goes_on_without(tmp_path: Path, base: str) -> None:
    """Nothing is read then: what was written before would be wrong."""
    folder = tmp_path / "folder"
    if base == "a file":
        folder.mkdir()
        (folder / f"lazyflow-{os.geteuid()}").touch()
        kept = Journal(str(folder))
        assert "PermissionError" in kept.trouble
    else:
        folder.mkdir()
        kept = Journal(str(folder))
        fd = journal.claimed(kept.name, str(folder))
        assert fd is not None
        kept.began(1)
        kept.ended(b"one")
        os.rmdir(folder / f"lazyflow-{os.geteuid()}")
        os.rmdir(folder)  # which takes nothing away from what is open
        kept.began(2)
        assert journal.entries(fd) == (2, [b"one"])
    kept.began(3)
    kept.ended(b"three")
    kept.close()


@pytest.mark.parametrize("is_short", [False, True])
def test_a_full_disk_ends_a_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_short: bool
) -> None:
    kept = Journal(str(tmp_path))
    fd = journal.claimed(kept.name, str(tmp_path))
    assert fd is not None
    kept.began(1)

    def full(*_: Any) -> int:
        if is_short:  # there was room for some of it
            return 3
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        kept.began(2)
    kept.began(3)
    assert kept.trouble == "OSError: [Errno 28] No space left on device"
    assert journal.entries(fd) is None


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("true",)


@pytest.mark.parametrize(
    "name", ["../planted", "planted", "/etc/passwd", "actor-" + "0" * 31, "actor-" + "0" * 33, ""]
)
def test_a_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    Journal(str(tmp_path))  # the folder is there
    data = journal._HEAD.pack(1, 16) + journal._LENGTH.pack(4) + pickle.dumps(Evil())
    for place in (tmp_path, tmp_path / f"lazyflow-{os.geteuid()}"):
        (place / "planted").write_bytes(data)
    assert journal.read(name, str(tmp_path)) is None
    assert (tmp_path / "planted").exists()


PROGRAM = """
import lazyflow, time

class Echo:
    def say(self, word):
        return word

if __name__ == "__main__":
    echo = lazyflow.actor(Echo, scheduler="distributed")()
    print(echo.say("here").result(), flush=True)
    time.sleep(1000)
"""


def test_a_caller_that_is_killed_leaves_no_journal(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    folder = tmp_path / "temporary"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "TMPDIR": str(folder)},
    ) as child:
        assert child.stdout is not None
        timer = threading.Timer(60, child.kill)
        timer.start()
        assert child.stdout.readline() == "here\n"
        os.kill(child.pid, signal.SIGKILL)
        timer.cancel()
    assert until(lambda: not glob.glob(f"{folder}/**/actor-*", recursive=True))
