"""Facts about the graphs of runs for rules of advice: large values, calls, chunks.

A `GraphWatch` looks at a graph once, before its run, and keeps facts without values; `Look.sights`
puts them into words when a result is asked for. State of a watch, which an observer has for all its
runs, so that it sees what comes again::

    _known :: KnownValues            large arguments, by identity, and the runs that had them
    _leaves :: {id: weak Task}       lazy values that an earlier graph had
    _planned :: [tuple]              arrays of which the next run computes blocks
    _runs :: int                     runs so far
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator
from dis import get_instructions
from functools import lru_cache, partial
from itertools import islice
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple
from weakref import ref

from lazyflow import config
from lazyflow.errors import InputMutated
from lazyflow.graph.kinds import ARRAY, kinds
from lazyflow.graph.task import HELD, VALUE, Task, function_name, place_text, task_name
from lazyflow.schedulers.core.base import AnyRun
from lazyflow.schedulers.core.errors.failures import edit_advice, text_of
from lazyflow.schedulers.core.errors.words import summary
from lazyflow.schedulers.core.run import Run
from lazyflow.schedulers.remote.large_values import LARGE, KnownValue, KnownValues, named_arguments
from lazyflow.store.sizes import size_of

# -- large data that a function takes along when it is pickled for other processes --------


def captured_by(func: Any) -> Iterator[tuple[str, int]]:
    """Yield descriptions and bytes of the large data that a function takes along.

    >>> import numpy
    >>> table = numpy.zeros(1_000_000)
    >>> list(captured_by(lambda i: table[i]))
    [("global variable 'table', ndarray(1000000,) float64", 8000000)]
    >>> list(captured_by(partial(max, table)))
    [('argument 1 of a partial, ndarray(1000000,) float64', 8000000)]
    """
    for name, value in _held_by(func):
        nbytes = size_of(value)
        if nbytes >= LARGE:
            yield f"{name}, {summary(value, scalars=False)}", nbytes


def _held_by(func: Any) -> Iterator[tuple[str, Any]]:
    kind = type(func)
    if kind is FunctionType:
        yield from _of_function(func)
    elif kind is partial:
        for i, value in enumerate(func.args):
            yield f"argument {i + 1} of a partial", value
        for name, value in func.keywords.items():
            yield f"argument {name!r} of a partial", value
        yield from _held_by(func.func)
    elif kind is MethodType:
        yield from _of_object("self", func.__self__)
        yield from _held_by(func.__func__)
    elif not kind.__module__.startswith(("lazyflow.", "numba.", "builtins")):
        yield from _of_object("self", func)


def _of_function(func: FunctionType) -> Iterator[tuple[str, Any]]:
    if func.__module__ != "__main__" and "<" not in func.__qualname__:
        return  # it goes by its name, and the worker imports it
    code = func.__code__
    for name, cell in zip(code.co_freevars, func.__closure__ or (), strict=True):
        try:
            yield f"variable {name!r}", cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    for name in code.co_names:  # attributes are among them, and instructions take time to read
        value = func.__globals__.get(name)
        if value is not None and size_of(value) >= LARGE and _is_global(name, code):
            yield f"global variable {name!r}", value
    for value in func.__defaults__ or ():
        yield "a default argument", value


def _is_global(name: str, code: CodeType) -> bool:
    """Tell whether a function reads a name as a global variable."""
    return any(
        each.argval == name and each.opname in ("LOAD_GLOBAL", "LOAD_NAME")
        for each in get_instructions(code)
    )


def _of_object(name: str, owner: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(owner, type):
        return
    found = getattr(owner, "__dict__", None)
    if type(found) is dict:
        for attribute, value in found.items():
            yield f"attribute {attribute!r} of {type(owner).__name__}", value
    else:
        yield name, owner


# -- calls that were made before `delayed` could make them lazy: ``delayed(f(x))`` --------


class EagerCall(NamedTuple):
    """The call in ``delayed(f(x))``: texts of f and of x, with literals as ``...``."""

    function: str
    arguments: str


@lru_cache(maxsize=256)
def eager_call(code: CodeType, lasti: int) -> EagerCall | None:
    """Return the call in the brackets of the ``delayed(...)`` at an offset in code, if one is.

    >>> from lazyflow import delayed
    >>> x = delayed(max(1, 2))
    >>> eager_call(x._code, x._lasti)
    EagerCall(function='max', arguments='..., ...')
    """
    source = _source(code, lasti)
    try:
        found = ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError):  # it is a part of something else, or not Python
        return None
    if not isinstance(found, ast.Call) or len(found.args) != 1:
        return None
    inner = found.args[0]
    name = ast.unparse(found.func).rpartition(".")[2]
    if name != "delayed" or not isinstance(inner, ast.Call):
        return None
    inner = _WithoutLiterals().visit(inner)
    arguments = [*map(ast.unparse, inner.args), *map(ast.unparse, inner.keywords)]
    return EagerCall(ast.unparse(inner.func), ", ".join(arguments))


class _WithoutLiterals(ast.NodeTransformer):
    """Leaves values out, which may be private: advice stands on pages."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.Constant(...)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return ast.Constant(...)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.operand, ast.Constant):
            return ast.Constant(...)
        return self.generic_visit(node)  # type: ignore[return-value]


def _source(code: CodeType, lasti: int) -> str:
    """Return the text of the expression at an offset in code; empty if it can't be read."""
    where = next(islice(code.co_positions(), lasti // 2, None), (None,) * 4)
    first, last, start, stop = where
    if first is None or last is None or start is None or stop is None:
        return ""
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[first - 1 : last]]
    if not lines:
        return ""
    lines[-1] = lines[-1][:stop]
    lines[0] = lines[0][start:]
    return b"".join(lines).decode(errors="replace")


_MAX_VALUES = 100_000  # values of graphs that are remembered; a guess

#: Code and offset of a user's line.
Line = tuple[Any, int]


# -- the facts of a run's graph -----------------------------------------------------------


class LargeArgument(NamedTuple):
    """A large array among the arguments of tasks that run in other processes.

    Attributes
    ----------
    value
        The same for the same array, in all runs that a watch sees.
    what
        Which argument it is, and its shape, as text.
    nbytes
        Its size.
    place
        The line that made the task.
    origin
        The line of the task that made it, if a compute returned it; else empty.
    """

    value: KnownValue
    what: str
    nbytes: int
    place: str
    origin: str


class CapturedData(NamedTuple):
    """Large data that a function of tasks in other processes holds.

    Attributes
    ----------
    function
        The name of the function.
    what
        The holder of the data, as text.
    nbytes
        The size of the data.
    functions
        How many functions of this name hold it, in the run.
    place
        The line that made a task of it.
    """

    function: str
    what: str
    nbytes: int
    functions: int
    place: str


class ArrayChunks(NamedTuple):
    """How the array that a line makes is cut.

    Attributes
    ----------
    place
        The line.
    name
        The function that made it.
    blocks
        The number of its blocks that are computed.
    nbytes
        Bytes of the largest, about.
    """

    place: str
    name: str
    blocks: int
    nbytes: int

    def is_tiny(self) -> bool:
        """Return whether blocks are so small that making their tasks may cost more than they."""
        return self.nbytes < config.get("chunk_bytes") / 8


class MadeValues(NamedTuple):
    """Values of the graph that ``delayed(f(x))`` made of results that were there.

    Attributes
    ----------
    place
        The line.
    call
        The argument in the brackets, as `EagerCall`.
    values
        How many there are.
    """

    place: str
    call: EagerCall
    values: int


class Refusal(NamedTuple):
    """A task that could not change its input.

    Attributes
    ----------
    name, place
        Of the task.
    text
        The error's.
    """

    name: str
    place: str
    text: str


class Sights(NamedTuple):
    """The facts about the graph of a run: see the classes above."""

    large: tuple[LargeArgument, ...] = ()
    captured: tuple[CapturedData, ...] = ()
    arrays: tuple[ArrayChunks, ...] = ()
    made: tuple[MadeValues, ...] = ()
    refused: tuple[Refusal, ...] = ()


NOTHING = Sights()


class Look:
    """The facts of one look at a graph, before they are put into words.

    Attributes
    ----------
    large, captured
        As those of `Sights`.
    arrays
        As the observers heard of them.
    values
        For each line that made values, how many are in no graph before.
    refused
        Tasks that failed since they changed their inputs.
    """

    def __init__(self, arrays: list[tuple[Any, ...]], values: dict[Line, int]) -> None:
        self.arrays = arrays
        self.values = values
        self.large: tuple[LargeArgument, ...] = ()
        self.captured: tuple[CapturedData, ...] = ()
        self.refused: list[Refusal] = []

    def sights(self, text_of_line: Callable[[Line], str]) -> Sights:
        """Return the facts, in words."""
        made = ((line, eager_call(*line), count) for line, count in self.values.items())
        return Sights(
            self.large, self.captured,
            tuple(ArrayChunks(text_of_line(line), *rest) for line, *rest in self.arrays),
            tuple(
                MadeValues(text_of_line(line), call, count) for line, call, count in made if call
            ),
            tuple(self.refused),
        )


class GraphWatch:
    """Looks at the graphs of one observer's runs.

    Examples
    --------
    >>> import lazyflow
    >>> with lazyflow.profile() as p:
    ...     lazyflow.delayed(abs)(lazyflow.delayed(max(-1, -2))).compute()
    1
    >>> p.runs[0].sights.made[0].call
    EagerCall(function='max', arguments='..., ...')
    """

    def __init__(self) -> None:
        self._known = KnownValues()
        self._leaves: dict[int, ref[Task]] = {}  # by id
        self._planned: list[tuple[Any, ...]] = []
        self._runs = 0

    def planned(self, arrays: list[tuple[Any, ...]]) -> None:
        """Take the arrays whose tasks the next run has."""
        self._planned += arrays

    def look(self, run: AnyRun) -> Look:
        """Look at the plan of a run that begins."""
        self._runs += 1
        plan = run.plan
        values: dict[Line, int] = {}
        for i in plan.leaves:
            task = plan.tasks[i]
            if task._func is VALUE and isinstance(task._code, CodeType) and self._is_new(task):
                line = task._code, task._lasti
                values[line] = values.get(line, 0) + 1
        look = Look(self._planned, values)
        self._planned = []
        if not isinstance(run, Run):  # its tasks are called in other processes
            look.large = tuple(self._large(plan.tasks, self._runs))
            look.captured = tuple(_captured(plan.tasks))
        return look

    def _is_new(self, leaf: Task) -> bool:
        """Return whether no run before has had this value."""
        known = self._leaves.get(id(leaf))
        if known is not None and known() is leaf:
            return False
        if len(self._leaves) >= _MAX_VALUES:
            self._leaves.clear()
        self._leaves[id(leaf)] = ref(leaf)
        return True

    def returned(self, run: AnyRun, values: list[Any]) -> None:
        """Note which values a compute returned."""
        if isinstance(run, Run):
            return
        for i, value in zip(run.plan.outputs, values, strict=True):
            known = self._known.find(value)
            if known is not None:
                known.origin = place_text(run.plan.tasks[i])

    def _large(self, tasks: list[Task], run: int) -> Iterator[LargeArgument]:
        for task in tasks:
            if task._bind is None and task._args is task._inputs:
                continue
            if not any(kinds[type(x)] == ARRAY and x.nbytes >= LARGE for x in _literals(task)):
                continue
            for name, value in [*named_arguments(task), *_inside(task)]:
                known = self._known.find(value)
                if known is None or known.run == run:
                    continue
                known.meet(run)
                what = "a lazy value" if task._func is VALUE else f"{name} of {task_name(task)}"
                what += f", {summary(value, scalars=False)}"
                yield LargeArgument(known, what, known.nbytes, place_text(task), known.origin)


def _literals(task: Task) -> Iterator[Any]:
    """Yield the values among the arguments of a task."""
    if task._bind is None:
        if task._args is not task._inputs and task._func is not HELD:
            yield from task._args
        return
    yield from task._bind.template
    for _, template, _, _ in task._bind.makers:
        yield from template or ()


def _inside(task: Task) -> Iterator[tuple[str, Any]]:
    """Yield the values in containers among the arguments."""
    for _, template, _, _ in task._bind.makers if task._bind is not None else ():
        for value in template or ():
            yield "a container", value


def _captured(tasks: list[Task]) -> Iterator[CapturedData]:
    """Yield the data that functions hold."""
    functions = {
        id(task._func): task for task in tasks if task._func is not VALUE and task._func is not HELD
    }
    found: dict[tuple[Any, ...], tuple[Task, int]] = {}
    for task in functions.values():
        for what, nbytes in captured_by(task._func):
            key = task._code, task._lasti, what, nbytes
            first, count = found.get(key, (task, 0))
            found[key] = first, count + 1
    for (_, _, what, nbytes), (task, count) in found.items():
        yield CapturedData(function_name(task._func), what, nbytes, count, place_text(task))


def refusal(run: AnyRun, i: int, error: BaseException) -> Refusal | None:
    """Return the facts about a task that failed since it changed its input, else None."""
    if not (isinstance(error, InputMutated) or edit_advice(error)):
        return None
    task = run.plan.tasks[i]
    return Refusal(task_name(task), place_text(task), text_of(error))
