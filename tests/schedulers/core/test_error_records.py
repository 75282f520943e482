"""An exception crosses processes with all that belongs to it, or with the reason why not."""

import threading
import traceback
from typing import Any

import pytest
from error_tools import raised, there_and_back
from hostile_exceptions.cases import says
from hostile_exceptions.pickling import ReduceWell, TwoArguments
from hypothesis import given, settings
from hypothesis import strategies as st

from lazyflow.errors import RemoteTaskError
from lazyflow.schedulers.core.errors import records as error_records
from lazyflow.schedulers.core.errors.records import rebuilt, record


def described(root: BaseException) -> list[Any]:
    """Describe exceptions with how they hang together."""
    found: list[BaseException] = [root]
    places = {id(root): 0}

    def place(error: BaseException | None) -> int | None:
        if error is not None and id(error) not in places:
            places[id(error)] = len(found)
            found.append(error)
        return None if error is None else places[id(error)]

    lines: list[Any] = []
    for error in found:  # grows
        members = getattr(error, "exceptions", ())
        lines.append(
            (
                type(error),
                error.args[:1] if members else error.args,
                getattr(error, "__notes__", []),
                error.__suppress_context__,
                place(error.__cause__),
                place(error.__context__),
                tuple(map(place, members)),
                place(getattr(error, "kept", None)),
            )
        )
    return lines


@st.composite
def families(draw: Any, cycles: bool) -> BaseException:
    makers = [ValueError, KeyError, lambda x: TwoArguments(x, "no"), KeyboardInterrupt]
    errors: list[Any] = []
    for i in range(draw(st.integers(1, 8))):
        if errors and not cycles and draw(st.booleans()):
            members = draw(st.lists(st.sampled_from(errors), min_size=1, max_size=4))
            errors.append(BaseExceptionGroup(str(i), members))
        else:
            errors.append(draw(st.sampled_from(makers))(i))
    for i, error in enumerate(errors):
        others = errors if cycles else errors[:i]
        for name in ("__cause__", "__context__"):
            if others and draw(st.booleans()):
                setattr(error, name, draw(st.sampled_from(others)))
        error.__suppress_context__ = draw(st.booleans())
        for note in draw(st.lists(st.text(max_size=3), max_size=2)):
            error.add_note(note)
        if not cycles and error.__cause__ is not None and draw(st.booleans()):
            error.kept = error.__cause__
    root: BaseException = errors[-1]
    return root


@settings(max_examples=150, deadline=None)
@given(st.booleans().flatmap(families))
def test_families_stay_together(root: BaseException) -> None:
    assert described(there_and_back(root)) == described(root)


def test_a_member_that_was_caused_by_its_group() -> None:
    member = TwoArguments(1, "one")
    group = ExceptionGroup("all", [member])
    member.__cause__ = group
    again: Any = there_and_back(group)
    assert again.exceptions[0].__cause__ is again
    again = there_and_back(member)
    assert repr(again.__cause__.exceptions) == "(TwoArguments('1: one'),)"


def test_a_long_chain_is_cut_where_it_is_far() -> None:
    last: BaseException = ValueError(0)
    for i in range(1, 5_000):
        error = ValueError(i)
        error.__context__ = last
        last = error
    at: BaseException | None = there_and_back(last)
    chain = []
    while at is not None:
        chain.append(at)
        at = at.__context__
    assert [error.args[0] for error in chain] == list(range(4_999, 3_999, -1))
    assert chain[-1].__notes__ == ["(1 of the exceptions that belong to this one were left out)"]


def test_a_large_group_keeps_its_first_members() -> None:
    group: Any = there_and_back(ExceptionGroup("all", [ValueError(i) for i in range(1_500)]))
    assert [error.args[0] for error in group.exceptions] == list(range(999))
    assert group.__notes__ == ["(501 of the exceptions that belong to this one were left out)"]


def test_each_of_a_chain_has_its_frames() -> None:
    def first() -> None:
        raise KeyError("first")

    def second() -> None:
        try:
            first()
        except KeyError as error:
            raise ValueError("second") from error

    with pytest.raises(ValueError) as caught:
        second()
    error = caught.value
    assert "".join(traceback.format_exception(there_and_back(error))) == "".join(
        traceback.format_exception(error)
    )


# -- what can go wrong with records ---------------------------------------------------------


@pytest.mark.parametrize("junk", [(), ((), ()), ((("x",),), ()), ((tuple(range(11)),), ()), 3])
def test_a_record_that_can_not_be_read(junk: Any) -> None:
    error = rebuilt(junk)
    assert type(error) is RemoteTaskError
    assert "does the worker have the version of lazyflow that the caller has?" in str(error)


def test_what_can_not_be_described_is_still_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def frames(trace: Any) -> list[Any]:
        if trace is None:
            raise MemoryError
        return []

    monkeypatch.setattr(error_records, "frames_of", frames)
    group: Any = there_and_back(raised(ExceptionGroup("all", [TwoArguments(1, "one")])))
    assert type(group) is ExceptionGroup
    (member,) = group.exceptions
    assert type(member) is RemoteTaskError
    assert str(member).startswith("a task raised TwoArguments(its text is lost). It can't be ")
    monkeypatch.setattr(error_records, "_family", says(MemoryError()))
    assert "MemoryError was raised while it was described" in str(there_and_back(ValueError()))


def test_the_users_interrupt_is_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    data = record(ReduceWell(1, 2))
    monkeypatch.setattr(ReduceWell, "__init__", says(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        rebuilt(data)
    found: list[BaseException] = []
    thread = threading.Thread(target=lambda: found.append(rebuilt(data)))
    thread.start()
    thread.join()
    assert "can't be unpickled here (KeyboardInterrupt: )" in str(found[0])
