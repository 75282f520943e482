"""Classes of a program come to the workers, and what is made of them comes back, as they are."""

import subprocess
import sys

import pytest
from engine_schedulers import DISTRIBUTED

from lazyflow import delayed

#: Definitions, what makes a value, and what shows it (``x``) with its class. Serial Python is the
#: oracle: in the program, of a value made there; in a worker; and of a value that came back.
KINDS = {
    "slots of a dataclass": (
        "@dataclass(slots=True)\nclass C:\n    a: int\n    b: list",
        "C(1, [2])",
        "x, hasattr(x, '__dict__'), C.a.__get__(x), list(C.__slots__)",
    ),
    "frozen slots": (
        "@dataclass(slots=True, frozen=True)\nclass C:\n    a: int", "C(1)", "x, hash(x)"
    ),
    "slots that are private": (
        "class C:\n    __slots__ = ('__a', 'b')\n    def __init__(self): self.__a = 5\n"
        "    def look(self): return self.__a",
        "C()", "x.look(), hasattr(x, 'b'), hasattr(x, '__dict__')",
    ),
    "slots with a dict": (
        "class C:\n    __slots__ = ('a', '__dict__', '__weakref__')",
        "setattr(c := C(), 'a', 1) or setattr(c, 'more', 2) or c",
        "x.a, vars(x), weakref.ref(x)() is x",
    ),
    "slots of a base": (
        "class B:\n    __slots__ = 'a'\nclass C(B):\n    __slots__ = ('b',)",
        "setattr(c := C(), 'a', 1) or setattr(c, 'b', 2) or c",
        "x.a, x.b, hasattr(x, '__dict__'), B.a.__get__(x)",
    ),
    "slots of an exception": (
        "class C(Exception):\n    __slots__ = ('a', '__b')\n"
        "    def __init__(self): self.a, self.__b = 1, 2\n    def look(self): return self.__b",
        "C()", "x.a, x.look(), vars(x)",
    ),
    "a named tuple": (
        "class C(NamedTuple):\n    a: int\n    b: int = 2", "C(1)", "x, x.b, C._fields"
    ),
    "a named tuple's child": (
        "class C(namedtuple('B', 'a')):\n    __slots__ = ()", "C(1)",
        "x, x.a, hasattr(x, '__dict__')",
    ),
    "a typed dict": ("class C(TypedDict):\n    a: int", "C(a=1)", "x, C.__annotations__"),
    "a protocol": (
        "@runtime_checkable\nclass B(Protocol):\n    def f(self): ...\n"
        "class C:\n    def f(self): return 1", "C()", "isinstance(x, B), isinstance(1, B), x.f()",
    ),
    "generic slots": (
        "T = TypeVar('T')\n@dataclass(slots=True)\nclass C(Generic[T]):\n    a: T", "C[int](1)",
        "x",
    ),
    "an abstract class": (
        "class B(abc.ABC):\n    @abc.abstractmethod\n    def f(self): ...\n"
        "class C(B):\n    def f(self): return 1\nB.register(int)",
        "C()", "x.f(), isinstance(x, B), isinstance(1, B)",
    ),
    "a flag": (
        "class C(Flag):\n    R = 1\n    W = 2\n    RW = 3\n    NONE = 0\n    READ = R",
        "C.RW", "x is C.RW, C.NONE, C.READ is C.R, list(C), list(C.__members__), C.R | C.W, ~C.R",
    ),
    "a flag that keeps bits": (
        "class C(IntFlag, boundary=KEEP):\n    A = 1\n    B = 6", "C.A | 16", "x, C.B, x + 1, C(7)"
    ),
    "an enum of numbers": (
        "class C(IntEnum):\n    A = 1\n    B = 2\n    X = 1", "C.B", "x + 1, C.X, C(1)"
    ),
    "an enum of text": (
        "class C(StrEnum):\n    A = auto()\n    B = auto()", "C.B", "x + '!', C('a')"
    ),
    "an enum of pairs": (
        "class C(tuple, Enum):\n    A = (1, 2)\n    B = (3, 4)", "C.B", "x[0], C.A, C((1, 2))"
    ),
    "an enum of dates": (
        "class C(datetime.date, Enum):\n    A = 2020, 1, 2", "C.A",
        "x.year, x is C.A, x.isoformat()",
    ),
    "an enum with __init__": (
        "class C(Enum):\n    E = (1, 2)\n    M = (3, 4)\n"
        "    def __init__(self, m, r): self.m, self.r = m, r\n"
        "    @property\n    def g(self): return self.m / self.r",
        "C.M", "x is C.M, x.m, C.E.g, x.value, C((1, 2)), callable(C.__init__)",
    ),
    "an enum with __new__": (
        "class C(bytes, Enum):\n    A = (1, 'one')\n    B = (2, 'two')\n"
        "    def __new__(cls, value, label):\n        obj = bytes.__new__(cls, [value])\n"
        "        obj._value_, obj.label = value, label\n        return obj",
        "C.B", "x is C.B, bytes(x), x.label, C(1).label",
    ),
    "an enum of dataclasses": (
        "@dataclass\nclass B:\n    size: str\n    legs: int\n"
        "class C(B, Enum):\n    BEETLE = 'small', 6\n    DOG = 'medium', 4",
        "C.DOG", "x is C.DOG, x.legs, C.BEETLE.size, x, [each.name for each in C]",
    ),
    "an enum of frozen dataclasses with slots": (
        "@dataclass(frozen=True, slots=True)\nclass B:\n    size: str\n    legs: int\n"
        "class C(Enum):\n    BEETLE = B('small', 6)\n    DOG = B('medium', 4)",
        "C.DOG", "x is C.DOG, x.value.legs, C(B('small', 6))",
    ),
    "an enum whose members know each other": (
        "class C(Enum):\n    A = 1\n    B = 2\nC.A.other, C.B.other = C.B, C.A",
        "C.A", "x.other is C.B, C.B.other is x",
    ),
    "an enum of an enum without members": (
        "class B(Enum):\n    def double(self): return 2 * self.value\n"
        "class C(B):\n    A = 4", "C.A", "x.double(), x is C.A",
    ),
    "a sentinel": (
        "class C:\n    def __reduce__(self): return 'S'\nS = C()\nS.note = 'kept'", "[S, S]",
        "x[0] is S, x[1] is S, S.note",
    ),
    "a sentinel with slots": (
        "class C:\n    __slots__ = ('name',)\n    def __init__(self, name): self.name = name\n"
        "    def __reduce_ex__(self, protocol): return self.name\nS = C('S')", "{'a': S}",
        "x['a'] is S, S.name",
    ),
    "a registry of a metaclass": (
        "class M(type):\n    known = []\n    def __init__(cls, name, bases, names):\n"
        "        M.known.append((name, names['key']))\n"
        "class B(metaclass=M): key = 1\nclass C(B): key = 2",
        "C()", "x.key, M.known, type(type(x)) is M",
    ),
    "a registry of subclasses": (
        "class B:\n    known = {}\n    def __init_subclass__(cls, *, key):\n"
        "        cls.key = key\n        B.known[key] = cls\n"
        "class C(B, key=1): pass\nclass D(B, key=2): pass",
        "C()", "x.key, [each.__name__ for each in B.known.values()], B.known[1] is type(x)",
    ),
    "subclasses that a task makes": (
        "class B:\n    known = []\n    def __init_subclass__(cls): B.known.append(cls.__name__)\n"
        "def count():\n    class D(B): pass\n    found = list(B.known)\n    B.known.remove('D')\n"
        "    return found",
        "B()", "count()",
    ),
}

PROGRAM = """
import abc, datetime, sys, weakref
from dataclasses import dataclass
from enum import KEEP, Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from collections import namedtuple
from typing import Generic, NamedTuple, Protocol, TypedDict, TypeVar, runtime_checkable
import lazyflow
from lazyflow import delayed
{definitions}
def make(): return {value}
def look(x): return repr(({seen}))
def both():
    x = make()
    return x, look(x)
def given(x): return look(x), x
def main():
    serial = look(make())
    lazyflow.config.set(scheduler={scheduler!r}, num_workers=1)
    try:
        x, there = delayed(both)().compute()
        sent, again = delayed(given)(make()).compute()
        found = [there, sent, look(x), look(again), look(make())]
    except Exception as error:
        found = [repr(error)]
    return [] if found == [serial] * 5 else [serial, *found]
"""

SCRIPT = """
import runpy, sys
programs = {programs!r}
if __name__ == "__main__":
    for name, text in programs.items():
        # Each as the program itself: what it defines is in __main__.
        exec(compile(text, name, "exec"), globals())
        if wrong := main():
            print(name, *wrong, sep="\\n    ")
    print("all tried")
"""


@pytest.mark.parametrize("scheduler", ["processes", DISTRIBUTED])
def test_classes_of_a_program_are_what_they_are(scheduler, tmp_path):
    programs = {
        name: PROGRAM.format(definitions=definitions, value=value, seen=seen, scheduler=scheduler)
        for name, (definitions, value, seen) in KINDS.items()
    }
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(programs=programs))
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert ran.stdout == "all tried\n", ran.stdout + ran.stderr


class Counted:
    calls = 0


# The class travels by value, as one of the program.
Counted.__module__ = "__main__"


@pytest.mark.parametrize("scheduler", ["processes", DISTRIBUTED])
def test_a_class_stays_as_it_is_where_it_was_defined(scheduler):
    def made():
        Counted.calls += 1
        return Counted(), Counted.calls

    call = delayed(made)()
    for calls in (0, 7):
        Counted.calls = calls  # what workers see, at each compute
        (found, there) = call.compute(scheduler=scheduler)
        assert (type(found), there, Counted.calls) == (Counted, calls + 1, calls)
