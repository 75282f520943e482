"""Exceptions that cross processes as records; the hostile ones are raised in a real child."""

import asyncio
import copyreg
import dataclasses
import functools
import marshal
import os
import pathlib
import subprocess
import sys
import textwrap
import threading
import traceback
import types
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow
from lazyflow.errors import RemoteTaskError
from lazyflow.schedulers import executor
from lazyflow.schedulers.core.errors import records as error_records
from lazyflow.schedulers.core.errors.records import arguments_of, rebuilt, record
from lazyflow.schedulers.core.errors.tracebacks import frames_of, traceback_from

PARENT = os.environ.get("LAZYFLOW_TEST_PARENT") is None
ROOT = pathlib.Path(lazyflow.__file__).parent.parent


def there_and_back(error: BaseException) -> BaseException:
    return rebuilt(marshal.loads(marshal.dumps(record(error))))


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def in_child(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    path = os.pathsep.join([str(ROOT), str(pathlib.Path(__file__).parent)])
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        timeout=60,
    )


# -- hostile exceptions ---------------------------------------------------------------------

#: Each raises an exception, with what is expected of it in the caller: its type and its text.
CASES: dict[str, Any] = {}


def case(kind: type[BaseException], text: str | None) -> Any:
    def add(function: Any) -> Any:
        CASES[function.__name__] = (function, kind, text)
        return function

    return add


def says(*words: Any) -> Any:
    """Return a method that raises what it is given."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise words[0]

    return method


class TwoArguments(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


@case(TwoArguments, "7: no")
def two_arguments() -> None:
    raise TwoArguments(7, "no")


class Wraps(Exception):
    def __init__(self, what: object) -> None:
        super().__init__(f"failed with {what}")


@case(Wraps, "failed with 3")
def a_message_made_of_its_argument() -> None:
    raise Wraps(3)


class Holds(Exception):
    """Needs another exception."""

    def __init__(self, code: int, inner: BaseException) -> None:
        super().__init__(inner)


@case(Holds, "7: no")
def one_that_holds_another() -> None:
    raise Holds(1, TwoArguments(7, "no"))


class Locked(Exception):
    def __init__(self) -> None:
        super().__init__("it holds a lock")
        self.lock = threading.Lock()


@case(Locked, "it holds a lock")
def a_lock() -> None:
    raise Locked


@case(ValueError, "('text', <locked>, 3)")
def an_argument_with_a_lock() -> None:
    error: Any = ValueError("text", Shown(), 3)
    error.me, error.lock, error.code = [error], threading.Lock(), 7
    raise error


class Shown:
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __repr__(self) -> str:
        return "<locked>"


class StaysBehind(Exception):
    __reduce__ = says(TypeError("cannot pickle it"))


@case(RemoteTaskError, "Stays(it) ... (ValueError: not ready)")
def a_class_that_stays_behind() -> None:
    class Stays(Exception):
        x = FailsToTravel()

    raise Stays("it")


class FailsToTravel:
    __reduce__ = says(ValueError("not ready"))


class ReduceRaises(Exception):
    __reduce__ = says(RuntimeError("no reduce"))


@case(RemoteTaskError, "ReduceRaises(text) ... . It can't be pickled (RuntimeError: no reduce)")
def reduce_raises() -> None:
    raise ReduceRaises("text")


class ReduceExits(Exception):
    __reduce__ = says(SystemExit(3))


@case(RemoteTaskError, "ReduceExits(text)")
def reduce_exits() -> None:
    raise ReduceExits("text")


class ReduceInterrupts(Exception):
    __reduce_ex__ = says(KeyboardInterrupt())


@case(RemoteTaskError, "ReduceInterrupts(text)")
def reduce_interrupts() -> None:
    raise ReduceInterrupts("text")


class ReduceJunk(Exception):
    def __reduce__(self) -> Any:
        return 3


@case(RemoteTaskError, "ReduceJunk(text)")
def reduce_gives_junk() -> None:
    raise ReduceJunk("text")


class ReduceOther(Exception):
    def __reduce__(self) -> Any:
        return ValueError, ("other",)


@case(RemoteTaskError, "ReduceOther(text) ... (TypeError: unpickling it gives ValueError)")
def reduce_gives_another_type() -> None:
    raise ReduceOther("text")


class ReduceWell(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")
        self.a, self.b, self.lock = a, b, threading.Lock()

    def __reduce__(self) -> Any:
        return ReduceWell, (self.a, self.b)


@case(ReduceWell, "1 and 2")
def reduce_leaves_out_a_lock() -> None:
    raise ReduceWell(1, 2)


class Registered(Exception):
    pass


copyreg.pickle(Registered, lambda error: (Registered, ("registered",)))  # type: ignore[arg-type]


@case(Registered, "registered")
def registered_with_copyreg() -> None:
    raise Registered("first")


def unpickled(place: str, text: str) -> Exception:
    if (place == "caller") == PARENT:
        raise RuntimeError("not here")
    return Unpickles(place, text)


class Unpickles(Exception):
    def __init__(self, place: str, text: str) -> None:
        super().__init__(text)
        self.place = place

    def __reduce__(self) -> Any:
        return unpickled, (self.place, self.args[0])


@case(RemoteTaskError, "Unpickles(text) ... . It can't be unpickled here (RuntimeError: not here)")
def unpickling_fails_in_the_caller() -> None:
    raise Unpickles("caller", "text")


@case(RemoteTaskError, "Unpickles(text) ... . It can't be pickled (RuntimeError: not here)")
def unpickling_fails_in_the_worker() -> None:
    raise Unpickles("worker", "text")


def junk_in_the_caller() -> Any:
    return 3 if PARENT else GivesJunk("text")


class GivesJunk(Exception):
    def __reduce__(self) -> Any:
        return junk_in_the_caller, ()


@case(RemoteTaskError, "GivesJunk(text) ... . It can't be unpickled here (it gives int)")
def unpickling_gives_junk_in_the_caller() -> None:
    raise GivesJunk("text")


class Renamed(Exception):
    pass


Renamed.__name__ = "Another"


@case(Renamed, "text")
def a_class_of_another_name() -> None:
    raise Renamed("text")


OfNoModule = eval("type('OfNoModule', (Base,), {})", {"Base": StaysBehind})


@case(RemoteTaskError, "a task raised OfNoModule(text)")
def a_class_of_no_module() -> None:
    raise OfNoModule("text")


class StateRaises(Exception):
    __setstate__ = says(SystemExit(4))

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.x = 1


@case(RemoteTaskError, "StateRaises(text)")
def setstate_exits() -> None:
    raise StateRaises("text")


class StrRaises(Exception):
    __str__ = __repr__ = says(RuntimeError("no str"))


@case(StrRaises, None)
def str_raises() -> None:
    raise StrRaises("text")


class StrExits(StaysBehind):
    __str__ = __repr__ = says(SystemExit(5))


@case(RemoteTaskError, "StrExits((its text can't be had: __str__ raised SystemExit))")
def str_exits() -> None:
    raise StrExits


class StrGivesInt(StaysBehind):
    def __str__(self) -> Any:
        return 3


@case(RemoteTaskError, "StrGivesInt((its text can't be had: __str__ raised TypeError))")
def str_gives_an_int() -> None:
    raise StrGivesInt


class Words(str):
    __slots__ = ()
    __len__ = __getitem__ = __str__ = __format__ = says(RuntimeError("no words"))


class StrGivesSubclass(StaysBehind):
    def __str__(self) -> str:
        return Words("words")


@case(RemoteTaskError, "StrGivesSubclass(words)")
def str_gives_a_hostile_subclass() -> None:
    raise StrGivesSubclass


class AttributesRaise(Exception):
    __getattribute__ = __setattr__ = __delattr__ = says(RuntimeError("no attributes"))


@case(AttributesRaise, "text")
def attributes_raise() -> None:
    raise AttributesRaise("text")


class Overrides(Exception):
    """Has the names that an exception is read by."""

    args = __cause__ = __context__ = __traceback__ = __notes__ = __dict__ = property(  # type: ignore[assignment]
        says(RuntimeError("no property"))
    )


@case(Overrides, "text")
def properties_raise() -> None:
    raise Overrides("text")


class Lies(Exception):
    @property
    def __class__(self) -> Any:  # type: ignore[override]
        return int


@case(Lies, "text")
def class_lies() -> None:
    raise Lies("text")


class Meta(type):
    __eq__ = says(RuntimeError("no meta"))  # type: ignore[assignment]
    __hash__ = type.__hash__
    __mro__ = __dict__ = property(says(RuntimeError("no meta")))  # type: ignore[assignment]


class Metaclassed(Exception, metaclass=Meta):
    pass


@case(Metaclassed, "text")
def metaclass_raises() -> None:
    raise Metaclassed("text")


@case(RemoteTaskError, "Hashless(text)")
def metaclass_has_no_hash() -> None:
    # Made here, in the child: libraries that register all exception classes would stumble.
    class HashlessMeta(type):
        __hash__ = says(RuntimeError("no hash"))  # type: ignore[assignment]

    class Hashless(Exception, metaclass=HashlessMeta):
        pass

    raise Hashless("text")


class Slotted(Exception):
    __slots__ = ("unset", "x", "y")

    def __init__(self, x: int, y: int) -> None:
        super().__init__()
        self.x, self.y = x, y

    def __str__(self) -> str:
        return f"{self.x}, {self.y}"


@case(Slotted, "1, None")
def slots() -> None:
    raise Slotted(1, None)  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    x: int

    def __str__(self) -> str:
        return f"x is {self.x}"


@case(Frozen, "x is 3")
def frozen() -> None:
    raise Frozen(3)


class NewNeeds(Exception):
    def __new__(cls, *args: Any, must: int) -> Any:
        return super().__new__(cls, *args)

    def __init__(self, *args: Any, must: int) -> None:
        super().__init__(*args)
        self.must = must


@case(NewNeeds, "text")
def new_needs_a_keyword() -> None:
    raise NewNeeds("text", must=1)


class NotesJunk(Exception):
    __notes__ = 5


@case(NotesJunk, "text")
def notes_are_no_list() -> None:
    raise NotesJunk("text")


class Note:
    __str__ = __repr__ = __reduce__ = says(RuntimeError("no note"))


@case(ValueError, "text")
def a_note_raises() -> None:
    error = ValueError("text")
    error.__notes__ = [Note()]  # type: ignore[list-item]
    raise error


@case(ValueError, "x" * 10_000 + "... (30000000 characters in all)")
def a_message_of_30_mb() -> None:
    raise ValueError("x" * 30_000_000)


@case(ValueError, "text")
def a_payload_of_65_mb() -> None:
    error = ValueError("text")
    error.payload = bytes(65 << 20)  # type: ignore[attr-defined]
    raise error


@case(RecursionError, "maximum recursion depth exceeded")
def recursion() -> None:
    recursion()


@case(ValueError, "<list>")
def an_argument_too_deep() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    raise ValueError(deep)


class KeepsItself(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__("text")
        self.me = self


@case(KeepsItself, "text")
def one_that_keeps_itself() -> None:
    raise KeepsItself(1, 2)


@case(ValueError, "\ud800 \x00")
def a_lone_surrogate() -> None:
    raise ValueError("\ud800 \x00")


@case(SystemExit, "7")
def system_exit() -> None:
    sys.exit(7)


@case(KeyboardInterrupt, "")
def keyboard_interrupt() -> None:
    raise KeyboardInterrupt


@case(GeneratorExit, "")
def generator_exit() -> None:
    raise GeneratorExit


@case(StopIteration, "3")
def stop_iteration() -> None:
    raise StopIteration(3)


@case(asyncio.CancelledError, "text")
def cancelled() -> None:
    raise asyncio.CancelledError("text")


class Group(ExceptionGroup):
    exceptions = property(says(RuntimeError("no members")))  # type: ignore[assignment]


@case(Group, "two (2 sub-exceptions)")
def a_group_that_hides_its_members() -> None:
    raise Group("two", [ValueError(1), StaysBehind("here")])


class GroupThatStays(ExceptionGroup):
    __reduce__ = says(TypeError("cannot pickle it"))


@case(RemoteTaskError, "GroupThatStays(one (1 sub-exception))")
def a_group_that_stays_behind() -> None:
    raise GroupThatStays("one", [ValueError(1)])


@case(ExceptionGroup, "one (1 sub-exception)")
def a_group_with_a_lock() -> None:
    error: Any = ExceptionGroup("one", [Locked()])
    error.lock = threading.Lock()
    raise error


@case(RuntimeError, "text")
def a_cycle_of_causes() -> None:
    one, two = RuntimeError("text"), TwoArguments(1, "two")
    two.__cause__ = two.__context__ = one
    two.one = one  # type: ignore[attr-defined]
    one.__context__ = one
    raise one from two


@case(ValueError, "text")
def code_of_a_strange_name() -> None:
    exec(compile("raise ValueError('text')", "\ud800\n\x1b", "exec"), {"__name__": 3})


@case(RemoteTaskError, "Gone(text)")
def a_class_that_only_the_worker_has() -> None:
    Gone = type("Gone", (Exception,), {"__module__": __name__})
    globals()["Gone"] = Gone
    raise Gone("text")


@functools.cache
def hidden() -> type[Exception]:
    class Local(Exception):
        def __init__(self, a: int, b: int) -> None:
            super().__init__("text")

    return Local


@case(Exception, "text")
def a_local_class() -> None:
    raise hidden()(1, 2)


def write_records() -> None:
    """Record all cases, in the child."""
    found = {}
    for name, (function, _, _) in CASES.items():
        try:
            function()
        except BaseException as error:
            found[name] = record(error, (name,))
    sys.stdout.buffer.write(marshal.dumps(found))


@pytest.fixture(scope="module")
def records() -> dict[str, Any]:
    code = "import test_error_records; test_error_records.write_records()"
    child = in_child("-c", code, LAZYFLOW_TEST_PARENT="no")
    assert (child.returncode, child.stderr) == (0, b"")
    found: dict[str, Any] = marshal.loads(child.stdout)
    return found


@pytest.mark.parametrize("name", CASES)
def test_hostile_exceptions(records: dict[str, Any], name: str) -> None:
    function, kind, text = CASES[name]
    assert arguments_of(records[name]) == (name,)
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
        assert frames[-1].filename == __file__
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
    assert "a task raised test_error_records.StaysBehind(here). It" in str(second)


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


# -- what C code keeps ----------------------------------------------------------------------


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


# -- all that belongs to an exception -------------------------------------------------------


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


# -- tracebacks -----------------------------------------------------------------------------


def test_places_are_exact() -> None:
    def fails(n: int) -> Any:
        if n:
            return [
                len("as far as this"), 1 + fails(
                    n - 1
                ),
            ]
        return (lambda: 1 / n)()

    with pytest.raises(ZeroDivisionError) as caught:
        fails(3)
    trace = caught.value.__traceback__
    made = traceback_from(frames_of(trace))
    assert traceback.format_tb(made) == traceback.format_tb(trace)
    assert made is not None
    places = [list(t.tb_frame.f_code.co_positions())[t.tb_lasti // 2] for t in walk(made)]
    assert places == [list(t.tb_frame.f_code.co_positions())[t.tb_lasti // 2] for t in walk(trace)]
    frame = made.tb_frame
    assert (frame.f_globals["__name__"], frame.f_globals["__file__"]) == (__name__, __file__)
    assert frame.f_code.co_qualname == "test_places_are_exact"
    assert frame.f_back is None  # it keeps nothing of the caller


def walk(trace: Any) -> Any:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def test_code_without_places() -> None:
    code = compile("\n\nraise ValueError", "nowhere.py", "exec")
    for linetable, line in ((code.co_linetable, 3), (b"", None)):
        try:
            exec(code.replace(co_linetable=linetable))
        except ValueError as error:
            made = traceback.extract_tb(there_and_back(error).__traceback__)[-1]
            assert (made.filename, made.lineno or None) == ("nowhere.py", line)


def test_places_that_run_backwards() -> None:
    code = compile("raise ValueError", "nowhere.py", "exec")
    entry = bytes([0xF7, 0, 0, 10, 2])  # 8 units of code: this line, from column 9 to column 1
    code = code.replace(co_linetable=entry * (len(code.co_code) // 16 + 1))
    assert (1, 1, 9, 1) in code.co_positions()
    with pytest.raises(ValueError) as caught:
        exec(code)
    last = traceback.extract_tb(there_and_back(caught.value).__traceback__)[-1]
    assert (last.filename, last.lineno) == ("nowhere.py", 1)


@pytest.mark.parametrize("line", [7, 1_000_000, 0, -5])
def test_lines_given_by_hand(line: int) -> None:
    error = raised(ValueError())
    trace = error.__traceback__
    assert trace is not None
    error.__traceback__ = types.TracebackType(None, trace.tb_frame, trace.tb_lasti, line)
    again = there_and_back(error).__traceback__
    assert [f.lineno for f in traceback.extract_tb(again)] == [max(line, 0)]


def test_a_name_of_a_file_that_can_not_be() -> None:
    code = compile("raise ValueError", "x", "exec").replace(co_filename="a\0b")
    with pytest.raises(ValueError) as caught:
        exec(code)
    last = traceback.extract_tb(there_and_back(caught.value).__traceback__)[-1]
    assert last.filename == "a\\0b"


def test_both_ends_of_a_long_traceback_are_kept() -> None:
    def deeper(n: int) -> None:
        deeper(n - 1) if n else last()

    def last() -> None:
        raise ValueError

    with pytest.raises(ValueError) as caught:
        deeper(200)
    names = [f.name for f in traceback.extract_tb(there_and_back(caught.value).__traceback__)]
    here = "test_both_ends_of_a_long_traceback_are_kept"
    assert names == [here, *["deeper"] * 49, "...", *["deeper"] * 49, "last"]


def test_our_own_frames_are_left_out() -> None:
    def task() -> None:
        raise ValueError

    with pytest.raises(ValueError) as caught:
        executor._Portable(task, [], {})()
    error = caught.value
    assert error.__traceback__ is not None
    error.__traceback__ = error.__traceback__.tb_next
    assert [f.name for f in traceback.extract_tb(error.__traceback__)] == ["__call__", "task"]
    assert [f.name for f in traceback.extract_tb(there_and_back(error).__traceback__)] == ["task"]


JOB = """
def outer(n):
    return [inner(x) for x in range(n)]

def inner(x):
    try:
        return {}[x]
    except KeyError as error:
        error.add_note("a note")
        raise ExceptionGroup(
            "both", [ValueError(x), *caught(x)]
        ) from error

def caught(x):
    try:
        return 1 / (x + 0)
    except ZeroDivisionError as error:
        return [error]
"""


def test_the_interpreter_prints_it_as_the_first_one(tmp_path: pathlib.Path) -> None:
    """Made in one process, uncaught in another: the same lines, source and marks."""
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "native.py").write_text("import job\njob.outer(3)\n")
    (tmp_path / "worker.py").write_text(textwrap.dedent("""
        import job, marshal, sys
        from lazyflow.schedulers.core.errors.records import record
        try:
            job.outer(3)
        except BaseException as error:
            sys.stdout.buffer.write(marshal.dumps(record(error)))
    """))
    (tmp_path / "caller.py").write_text(textwrap.dedent("""
        import marshal, sys
        from lazyflow.schedulers.core.errors.records import rebuilt
        raise rebuilt(marshal.load(open(sys.argv[1], "rb")))
    """))
    native = in_child(str(tmp_path / "native.py")).stderr.decode()
    worker = in_child(str(tmp_path / "worker.py"))
    assert worker.stderr == b""
    (tmp_path / "record").write_bytes(worker.stdout)
    found = in_child(str(tmp_path / "caller.py"), str(tmp_path / "record")).stderr.decode()
    assert printed(found) == printed(native)
    assert f'File "{tmp_path / "job.py"}", line 10, in inner\n' in found
    assert 'raise ExceptionGroup(\n' in found
    assert "| ValueError: 0" in found
    assert "{}[x]" in found


def printed(text: str) -> list[str]:
    """Return what stands in a printed traceback, less the frames that lead to the job."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if "File " in line]
    ends = [*starts[1:], len(lines)]
    drop = {
        k
        for i, end in zip(starts, ends, strict=True)
        if "job.py" not in lines[i]
        for k in range(i, end)
    }
    return [line for i, line in enumerate(lines) if i not in drop]


SCRIPT = """
import cloudpickle, marshal, subprocess, sys
from lazyflow.schedulers.core.errors.records import rebuilt

class Mine(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} {b}")

def task():
    raise Mine(1, 2)

code = '''
import marshal, pickle, sys
from lazyflow.schedulers.core.errors.records import record
task = pickle.load(sys.stdin.buffer)
try:
    task()
except BaseException as error:
    sys.stdout.buffer.write(marshal.dumps(record(error)))
'''
done = subprocess.run([sys.executable, "-c", code], input=cloudpickle.dumps(task),
                      capture_output=True, check=True)
try:
    raise rebuilt(marshal.loads(done.stdout))
except Mine as error:
    print("caught", error, type(error) is Mine)
"""


def test_a_class_of_the_users_script_is_caught_by_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    child = in_child(str(tmp_path / "script.py"))
    assert (child.stdout, child.stderr) == (b"caught 1 2 True\n", b"")


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
