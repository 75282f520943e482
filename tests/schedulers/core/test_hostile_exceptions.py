"""Exceptions that are hard to pickle, to look at or to hold, raised in a real child."""

import marshal
import traceback
from typing import Any

import pytest
from error_tools import in_child
from hostile_exceptions import CASES
from hostile_exceptions.looks import Overrides
from hostile_exceptions.pickling import Locked, TwoArguments

from lazyflow.errors import RemoteTaskError
from lazyflow.schedulers.core.errors.records import rebuilt


@pytest.fixture(scope="module")
def records() -> dict[str, Any]:
    code = "import hostile_exceptions; hostile_exceptions.write_records()"
    child = in_child("-c", code, LAZYFLOW_TEST_PARENT="no")
    assert (child.returncode, child.stderr) == (0, b"")
    found: dict[str, Any] = marshal.loads(child.stdout)
    return found


@pytest.mark.parametrize("name", CASES)
def test_hostile_exceptions(records: dict[str, Any], name: str) -> None:
    function, kind, text = CASES[name]
    error = rebuilt(records[name])
    if kind is Exception:
        assert type(error).__name__ == "Local"  # it came by value
    else:
        assert type(error) is kind
    if kind is RemoteTaskError:
        assert all(words in str(error) for words in text.split(" ... "))
        assert "\n" not in str(error)
    elif text is not None:
        assert str(BaseException.__str__(error) if kind is Overrides else error) == text
    trace = BaseException.__dict__["__traceback__"].__get__(error)
    frames = traceback.extract_tb(trace)
    assert [f.name for f in frames[:2]] == ["write_records", function.__name__]
    if name != "code_of_a_strange_name":
        # the place, and its source, which is read here
        assert frames[-1].filename == function.__code__.co_filename
        assert frames[-1].line == "recursion()" or frames[-1].line.startswith(("raise", "sys.exit"))


def test_a_recursion_is_cut(records: dict[str, Any]) -> None:
    frames = traceback.extract_tb(rebuilt(records["recursion"]).__traceback__)
    assert len(frames) == 101
    assert frames[50].filename.endswith(" more frames>")
    assert 800 < int(frames[50].filename[1:].split()[0]) < 1000
    assert len(marshal.dumps(records["recursion"])) < 20_000


def test_long_messages_are_short_records(records: dict[str, Any]) -> None:
    assert len(marshal.dumps(records["a_message_of_30_mb"])) < 30_000
    assert len(marshal.dumps(records["a_payload_of_65_mb"])) < 3_000


def test_members_of_a_group_that_stays_behind(records: dict[str, Any]) -> None:
    group = rebuilt(records["a_group_that_stays_behind"]).__cause__
    assert type(group) is ExceptionGroup
    assert repr(group.exceptions) == "(ValueError(1),)"


def test_a_member_that_stays_behind(records: dict[str, Any]) -> None:
    group = rebuilt(records["a_group_that_hides_its_members"])
    first, second = ExceptionGroup.exceptions.__get__(group)  # type: ignore[attr-defined]
    assert repr(first) == "ValueError(1)"
    assert type(second) is RemoteTaskError
    assert "a task raised hostile_exceptions.pickling.StaysBehind(here). It" in str(second)


_NO_LOCKS = "TypeError: cannot pickle '_thread.lock' object"


def test_what_can_not_travel_is_left_out(records: dict[str, Any]) -> None:
    error: Any = rebuilt(records["an_argument_with_a_lock"])
    assert (error.args[0], error.args[2], error.code) == ("text", 3, 7)
    assert error.me == [error] and not hasattr(error, "lock")
    assert error.__notes__ == [
        f"left out, since it can't travel: args[1] ({_NO_LOCKS}); its lock ({_NO_LOCKS})"
    ]
    group: Any = rebuilt(records["a_group_with_a_lock"])
    assert type(group.exceptions[0]) is Locked
    for one in (group, group.exceptions[0], rebuilt(records["a_lock"])):
        assert one.__notes__ == [f"left out, since it can't travel: its lock ({_NO_LOCKS})"]
    (note,) = rebuilt(records["a_payload_of_65_mb"]).__notes__
    assert note.endswith("its payload (ValueError: it is larger than 64 MiB when pickled)")
    assert not hasattr(rebuilt(records["one_that_keeps_itself"]), "__notes__")


def test_cycles_are_kept(records: dict[str, Any]) -> None:
    one: Any = rebuilt(records["a_cycle_of_causes"])
    assert one.__cause__.__cause__ is one.__cause__.__context__ is one
    assert one.__cause__.code == 1
    itself: Any = rebuilt(records["one_that_keeps_itself"])
    assert itself.me is itself


def test_attributes(records: dict[str, Any]) -> None:
    error: Any = rebuilt(records["slots"])
    assert (error.x, error.y, hasattr(error, "unset")) == (1, None, False)
    assert rebuilt(records["two_arguments"]).code == 7  # type: ignore[attr-defined]
    assert rebuilt(records["new_needs_a_keyword"]).must == 1  # type: ignore[attr-defined]
    assert rebuilt(records["stop_iteration"]).value == 3  # type: ignore[attr-defined]
    assert type(rebuilt(records["one_that_holds_another"]).args[0]) is TwoArguments
