"""LLVM's text: modules, kernels, and loops over elements, by vectors and then one by one.

A loop goes by vectors of WIDTH elements; the rest goes one by one, or, for costly functions, as one
vector in which the last element is repeated. Long runs make their second vector begin at a line of
the cache, so the first two may overlap. Loads and stores assume no alignment. Truth values are
bytes in memory and single bits in registers. A module holds the functions that its kernel calls,
and declares the intrinsics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyflow.array.kernels.native.elementary.formulas import definitions
from lazyflow.array.kernels.native.elementary.lanes import WIDTH
from lazyflow.array.kernels.native.operations import Body, memory, register

Inside = Callable[[Body, str], None]

F8, I8 = np.dtype("f8"), np.dtype("i8")
LINE = 64  # bytes that are stored at once where they begin at a multiple of it
LONG = 512  # elements from which a run gains by that


class Text:
    """The lines of a function.

    width
        Elements of a vector.
    current
        The label of the block that is being written.
    ended
        That of the last block of the last loop.
    constants
        By number and width, values that are the same for all elements.
    """

    width = WIDTH

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names = [0]
        self.body = self.at(1)
        self.current = ""
        self.ended = ""
        self.constants: dict[tuple[int, int], str] = {}

    def at(self, width: int) -> Body:
        """Return a body of another width for the same function."""
        return Body(width, self.lines, self.names)

    def label(self, name: str) -> None:
        """Start a block."""
        self.lines.append(f"{name}:")
        self.current = name

    def least(self, one: str, other: str) -> str:
        """Return the least of two whole numbers."""
        less = self.body.let(f"icmp slt i64 {one}, {other}")
        return self.body.let(f"select i1 {less}, i64 {one}, i64 {other}")

    def arguments(self, kind: str, source: str, names: Sequence[str]) -> None:
        """Give names to values that lie in an array from its first element on."""
        for at, name in enumerate(names):
            self.body.do(f"%{name}.at = getelementptr {kind}, ptr {source}, i64 {at}")
            self.body.do(f"%{name} = load {kind}, ptr %{name}.at")

    def kernel(self, functions: Sequence[str] = ()) -> str:
        """Return a module in which these lines are a kernel, and with functions that it calls."""
        head = "define i32 @NAME(ptr noalias %pointers, ptr noalias %numbers) {"
        return module_text([*functions, head, *self.lines, "}"])

    def constant(self, number: int, pointer: str, dtype: np.dtype[Any]) -> None:
        """Read a value that is the same for all elements."""
        value = self.load(self.body, pointer, dtype)
        self.constants[number, 1] = value
        self.constants[number, self.width] = self.at(self.width).splat(value, dtype)

    def loops(
        self, name: str, high: str, after: str, inside: Inside, first: str = str(WIDTH),
        costly: bool = False,
    ) -> None:
        """Write a block that goes from 0 to `high`: by vectors, then one by one.

        first
            Where the second vector begins, at most a vector on: it may do again what the first did.
        costly
            The rest is one vector, too, in which the last element is there again and again.
        """
        one = self.body
        self.label(name)
        further = one.let(f"sub i64 {high}, {first}")
        middle = one.let(f"add i64 {one.let(f'and i64 {further}, {-self.width}')}, {first}")
        some = one.let(f"icmp sge i64 {high}, {self.width}")
        one.do(f"br i1 {some}, label %{name}.vector, label %{name}.rest")
        self._loop(f"{name}.vector", self.width, "0", middle, f"{name}.rest", inside, name, first)
        self.label(f"{name}.rest")
        begin = one.let(f"phi i64 [ 0, %{name} ], [ {middle}, %{self.ended} ]")
        some = one.let(f"icmp slt i64 {begin}, {high}")
        one.do(f"br i1 {some}, label %{name}.scalar, label %{after}")
        if costly:
            self._last_vector(f"{name}.scalar", begin, high, after, inside)
        else:
            self._loop(f"{name}.scalar", 1, begin, high, after, inside, f"{name}.rest", "1")

    def _last_vector(self, name: str, first: str, high: str, after: str, inside: Inside) -> None:
        self.label(name)
        one, b = self.body, Body(self.width, self.lines, self.names, apart=True)
        kind, order = b.wide("i64"), ", ".join(f"i64 {n}" for n in range(self.width))
        lanes = b.let(f"add {kind} {b.splat(first, I8)}, <{order}>")
        last = b.splat(one.let(f"sub i64 {high}, 1"), I8)
        before = b.let(f"icmp slt {kind} {lanes}, {last}")
        inside(b, b.let(f"select {b.wide('i1')} {before}, {kind} {lanes}, {kind} {last}"))
        one.do(f"br label %{after}")

    def to_whole_line(self, pointer: str, length: str, size: int) -> str:
        """Return after how many elements a line of the cache begins; a vector on for short runs."""
        b, line = self.body, min(self.width * size, LINE)
        away = b.let(f"sub i64 0, {b.let(f'ptrtoint ptr {pointer} to i64')}")
        away = b.let(f"and i64 {away}, {line - 1}")
        before = b.let(f"udiv i64 {away}, {size}")
        gains = b.let(f"icmp sge i64 {length}, {LONG}")
        apart = b.let(f"icmp ne i64 {before}, 0")
        both = b.let(f"and i1 {gains}, {apart}")
        return b.let(f"select i1 {both}, i64 {before}, i64 {self.width}")

    def _loop(
        self, name: str, width: int, low: str, high: str, after: str, inside: Inside, before: str,
        first: str,
    ) -> None:
        b = self.at(width)
        self.label(name)
        index, following, step = b.name(), b.name(), b.name()
        start = len(self.lines)
        inside(b, index)
        self.ended = self.current
        self.lines[start:start] = [
            f"  {index} = phi i64 [ {low}, %{before} ], [ {following}, %{self.ended} ]",
            f"  {step} = phi i64 [ {first}, %{before} ], [ {width}, %{self.ended} ]",
        ]
        b.do(f"{following} = add i64 {index}, {step}")
        done = b.let(f"icmp eq i64 {following}, {high}")
        b.do(f"br i1 {done}, label %{after}, label %{name}")

    def each(self, name: str, high: str, inside: Inside) -> None:
        """Write a loop from 0 to `high`, at least once, one by one."""
        before = self.current
        self.body.do(f"br label %{name}")
        self._loop(name, 1, "0", high, f"{name}.over", inside, before, "1")
        self.label(f"{name}.over")

    def fold(
        self, b: Body, high: str, start: str, dtype: np.dtype[Any], step: Callable[[str, str], str]
    ) -> str:
        """Write a loop from 0 to `high`, at least once, in which `step` makes a value of the last.

        `step` is given the index and the value.
        """
        name, kind, before = f"fold{b.name()[1:]}", b.type(dtype), self.current
        index, following, value = b.name(), b.name(), b.name()
        b.do(f"br label %{name}")
        self.label(name)
        at = len(self.lines)
        found = step(index, value)
        here = self.current
        self.lines[at:at] = [
            f"  {index} = phi i64 [ 0, %{before} ], [ {following}, %{here} ]",
            f"  {value} = phi {kind} [ {start}, %{before} ], [ {found}, %{here} ]",
        ]
        b.do(f"{following} = add i64 {index}, 1")
        done = b.let(f"icmp eq i64 {following}, {high}")
        b.do(f"br i1 {done}, label %{name}.over, label %{name}")
        self.label(f"{name}.over")
        return found

    def element(self, b: Body, pointer: str, index: str, dtype: np.dtype[Any]) -> str:
        """Return the pointer to an element; for lanes that lie apart, the pointers."""
        kind = b.wide("i64") if b.apart else "i64"
        return b.let(f"getelementptr {memory(dtype)}, ptr {pointer}, {kind} {index}")

    def load(self, b: Body, pointer: str | list[str], dtype: np.dtype[Any]) -> str:
        """Return the values at a pointer; of lanes that lie apart, at the pointers of each."""
        one, kind = memory(dtype), b.wide(memory(dtype))
        if b.apart or isinstance(pointer, list):
            value = "poison"
            for lane, place in enumerate(lanes_of(b, "ptr", pointer)):
                found = b.let(f"load {one}, ptr {place}, align 1")
                value = b.let(f"insertelement {kind} {value}, {one} {found}, i64 {lane}")
        else:
            value = b.let(f"load {kind}, ptr {pointer}, align 1")
        if one == register(dtype):
            return value
        return b.let(f"icmp ne {kind} {value}, {b.fixed('i8', '0')}")

    def store(
        self, b: Body, value: str, pointer: str | list[str], dtype: np.dtype[Any]
    ) -> None:
        """Write values to a pointer; of lanes that lie apart, to the pointers of each."""
        one, kind = memory(dtype), b.wide(memory(dtype))
        if one != register(dtype):
            value = b.let(f"zext {b.wide('i1')} {value} to {kind}")
        if not b.apart:
            b.do(f"store {kind} {value}, ptr {pointer}, align 1")
            return
        for each, at in zip(lanes_of(b, one, value), lanes_of(b, "ptr", pointer), strict=True):
            b.do(f"store {one} {each}, ptr {at}, align 1")

    def select(self, b: Body, mask: str, value: str) -> str:
        """Return doubles where a mask is true, else zeros; all of them are computed."""
        value = b.intrinsic("arithmetic.fence", F8, value)
        kind = b.type(F8)
        return b.let(f"select {b.wide('i1')} {mask}, {kind} {value}, {kind} {b.zero(F8)}")


def module_text(lines: Sequence[str]) -> str:
    """Return the text of a module with these functions, and with the functions that they call."""
    found = [*lines, *definitions(lines)]
    calls = [line for line in found if "call" in line and "@llvm." in line]
    return "\n".join([*found, *sorted(set(map(_declaration, calls))), ""])


def _declaration(line: str) -> str:
    """Return the declaration of the intrinsic that a line calls."""
    kind, name, given = re.findall(r"call (.+?) @(llvm[\w.]+)\((.*)\)", line)[0]
    given = re.sub(r"splat \(.*?\)|<\w+ [-\d].*?>", "constant", given)
    types = ", ".join(each.rpartition(" ")[0] for each in given.split(", "))
    return f"declare {kind} @{name}({types})"


def lanes_of(b: Body, scalar: str, vector: str | list[str]) -> list[str]:
    """Return the lanes of a vector, or those that were given one by one."""
    if isinstance(vector, list):
        return vector
    kind = b.wide(scalar)
    return [b.let(f"extractelement {kind} {vector}, i64 {lane}") for lane in range(b.width)]
