"""What an exception holds arrives as it was: arguments, attributes, slots, notes, fields of C."""

import copyreg
import subprocess
import threading
from typing import Any

import pytest
from error_tools import there_and_back
from hostile_exceptions.looks import Frozen, Slotted
from hostile_exceptions.pickling import TwoArguments


class Missing(FileNotFoundError):
    def __init__(self, path: str) -> None:
        super().__init__(2, "no such thing", path)


@pytest.mark.parametrize(
    ("error", "names"),
    [
        (OSError(2, "no", "a", None, "b"), "errno strerror filename filename2"),
        (Missing("here"), "errno strerror filename"),
        (OSError("only text"), "errno strerror filename"),
        (BlockingIOError(11, "again", 7), "errno characters_written"),
        (ImportError("no", name="n", path="p"), "name path msg"),
        (UnicodeDecodeError("ascii", b"\xff", 0, 1, "bad"), "encoding object start end reason"),
        (UnicodeEncodeError("ascii", "é" * 20_000, 0, 1, "bad"), "encoding object start reason"),
        (SyntaxError("bad", ("f", 1, 2, "a b", 1, 3)), "filename lineno offset text end_offset"),
        (NameError("no", name="n"), "name"),
        (AttributeError("no", name="n", obj=threading.Lock()), "name"),
        (KeyError("k"), ""),
        (SystemExit(None), "code"),
        (ValueError(), ""),
        (subprocess.CalledProcessError(3, "cmd", b"out"), "returncode cmd output"),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, BaseException) else "",
)
def test_exceptions_of_c_keep_their_fields(error: BaseException, names: str) -> None:
    again = there_and_back(error)
    assert type(again) is type(error)
    assert (str(again), repr(again), again.args) == (str(error), repr(error), error.args)
    for name in names.split():
        assert getattr(again, name) == getattr(error, name), name


def of_any_kind(error: BaseException) -> Any:
    return type(error), ()


def test_a_way_to_pickle_that_a_library_gave_all_exceptions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Importing distributed does that; it is about tracebacks, and loses attributes."""
    for kind in (BaseException, BlockingIOError, TwoArguments):
        monkeypatch.setitem(copyreg.dispatch_table, kind, of_any_kind)
    again: Any = there_and_back(BlockingIOError(11, "again", 7))
    assert (again.args, again.characters_written) == ((11, "again", 7), 7)
    monkeypatch.setitem(copyreg.dispatch_table, BlockingIOError, lambda e: (KeyError, (7,)))
    assert repr(there_and_back(BlockingIOError(11, "again"))) != "BlockingIOError(11, 'again')"


def test_data_is_not_cut_with_a_long_message() -> None:
    error = ValueError("m" * 20_000, 7)
    error.data = "d" * 20_000  # type: ignore[attr-defined]
    again: Any = there_and_back(error)
    assert again.args == ("m" * 10_000 + "... (20000 characters in all)", 7)
    assert again.data == "d" * 20_000
    word = Word("m" * 20_000)
    again = there_and_back(ValueError("m" * 20_000, word))
    assert (again.args[1], type(again.args[1])) == (word, Word)


class Word(str):
    pass


class Counts(Exception):
    made = 0

    def __init__(self, text: str) -> None:
        Counts.made += 1


def test_an_init_is_not_run_again() -> None:
    error = Counts("text")
    assert there_and_back(error).args == ("text",)
    assert Counts.made == 1


def test_args_that_were_set_by_hand() -> None:
    error = OSError(2, "no")
    error.args = (2, "no", "more")
    assert there_and_back(error).args == (2, "no", "more")


class Undecodable(UnicodeDecodeError):
    def __init__(self, text: str) -> None:
        """Not what UnicodeDecodeError takes."""


def test_an_init_that_is_not_that_of_its_base() -> None:
    again = there_and_back(Undecodable("text"))
    assert (type(again), again.args) == (Undecodable, ("text",))


class SlottedTwice(Slotted):
    __slots__ = ("x",)


def test_slots_of_one_name() -> None:
    error = SlottedTwice(1, 2)
    Slotted.x.__set__(error, 3)  # type: ignore[attr-defined]
    again: Any = there_and_back(error)
    assert (type(again), again.x, again.y) == (SlottedTwice, 1, 2)


def test_notes_of_what_refuses_attributes() -> None:
    error = Frozen(3)
    error.__dict__["__notes__"] = ["a note"]
    assert there_and_back(error).__notes__ == ["a note"]


def test_long_notes_are_cut() -> None:
    error = ValueError()
    error.__notes__ = ["n" * 20_000, *map(str, range(200))]
    notes = there_and_back(error).__notes__
    assert notes[:2] == ["n" * 10_000 + "... (20000 characters in all)", "0"]
    assert len(notes) == 100
