"""Programs: made from a number, run with NumPy and with lazyflow, compared, shrunk."""

import ast
import re
import warnings
from dataclasses import dataclass, field

import numpy as np

import lazyflow
import lazyflow.array as la
from array_programs import steps, values
from array_programs.comparing import Computed, Inexact, NearlyNumpys, difference
from array_programs.drawing import Draw, NothingFits
from lazyflow.array.kernels.native.elementary.formulas import FORMULAS

LINES = {
    how: [line for line in text.strip().splitlines() if line]
    for how, text in [("exact", steps.EXACT), ("sums", steps.SUMS), ("moments", steps.MOMENTS),
                      ("changes", steps.CHANGES)]
}
_CHOICES = [(how, line) for how, lines in LINES.items() for line in lines]
_WEIGHTS = np.array([3.0 if how == "changes" else 1.0 for how, _ in _CHOICES])
_CASES = {
    "scheduler": ["sync", "sync", "sync", "threads", "threads"],
    "kernels": ["auto", "numpy", "numpy", "native"],
    "array_fusion": [True, True, True, False],
    "math": ["own", "own", "numpy"],
}
_NO_KERNEL = "no kernel for this expression"  # what kernels="native" says of objects, for one
#: What calls an elementary function, by its name, by ``**`` or inside.
_OWN = sorted({f.__name__ for f in FORMULAS} - {"floor_divide", "fmod", "remainder"})
_ELEMENTARY = re.compile(rf"\b({'|'.join(_OWN)}|logspace)\b|\*\*")
_COPIES = re.compile(r"xp\.array\(|copy\(|astype|flatten")  # never what they were given


@dataclass(frozen=True)
class Line:
    """A step. It makes `name` or, where that is None, changes `changed`."""

    code: str
    name: str | None
    how: str = "exact"
    changed: str | None = None
    chunks: tuple | None = None  # of an input

    def __str__(self):
        if self.chunks is not None:
            return f"{self.name} = given({self.code}, {self.chunks})"
        made = f"{self.name} = {self.code}" if self.name else self.code
        return made if self.how == "exact" else f"{made}  # {self.how}"

    @property
    def uses(self):
        return set(re.findall(r"\bv\d+\b", self.code))


@dataclass(frozen=True)
class Program:
    seed: int
    lines: tuple
    settings: dict = field(default_factory=dict)

    def behind(self, line):
        """Return the lines that a line's outcome depends on, itself among them."""
        at = self.lines.index(line)
        found, needed = [line], set(line.uses)
        for each in reversed(self.lines[:at]):
            if (each.name or each.changed) in needed:
                found.append(each)
                needed |= each.uses
        return found

    def __str__(self):
        """Return its code, as ``--file`` takes it."""
        return "\n".join([f"# {self.settings}", *map(str, self.lines)])


def parse(text):
    """Return the program of a code that was printed."""
    settings, lines = {}, []
    for line in text.splitlines():
        if line.startswith("# {"):
            settings = ast.literal_eval(line[2:])
        if not line.strip() or line.startswith("#"):
            continue
        code, _, how = line.partition("  # ")
        how = how or "exact"
        if how == "changes":
            lines.append(Line(code, None, how, re.search(r"\bv\d+", code)[0]))
            continue
        name, _, code = code.partition(" = ")
        if code.startswith("given("):
            args = ast.parse(code, mode="eval").body.args
            made, chunks = [ast.get_source_segment(code, each) for each in args]
            lines.append(Line(made, name, how, None, ast.literal_eval(chunks)))
        else:
            lines.append(Line(code, name, how))
    return Program(0, tuple(lines), settings)


@dataclass(frozen=True)
class Different:
    """Where a line's outcome is not NumPy's."""

    program: Program
    line: Line
    why: str  # the class of the difference
    what: str
    mine: object = field(default=None, repr=False, compare=False)
    wanted: object = field(default=None, repr=False, compare=False)
    before: dict = field(default_factory=dict, repr=False, compare=False)  # what the line names


def outcome(function):
    """Return what a function gives, or its error."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function()
        except Exception as error:
            return error


def kept(value):
    """Return what a step gave as an array of its own."""
    if isinstance(value, np.ndarray | np.generic):
        return np.array(value)
    if isinstance(value, tuple | list):
        return [kept(each) for each in value]
    if isinstance(value, str | bytes | bool | int | float | complex | np.dtype | type | type(None)):
        return value
    found = np.empty((), object)
    found[()] = value
    return found


class _Side:
    """The names that a program's code sees, of NumPy or of lazyflow."""

    def __init__(self, xp, maker):
        self.names = {
            "xp": xp, "la": la, "np": np, "nan": np.nan, "inf": np.inf,
            "flags": maker(values.flags), "ints": maker(values.ints),
            "double": values.double, "spread": values.spread, "neighbours": values.neighbours,
        }

    def run(self, line, given):
        """Return what a line makes, or what it changes afterwards."""
        if line.chunks is not None:
            self.names[line.name] = given(eval(line.code, dict(self.names)), line.chunks)
            return self.names[line.name]
        if line.name is None:
            exec(line.code, self.names)
            return self.names[line.changed]
        return eval(line.code, dict(self.names))


def numpy_side():
    return _Side(values.Reference(), lambda function: function)


def lazy_side():
    return _Side(la, values.lazy)


def make(seed, most=12):
    """Return the program of a number."""
    rng = np.random.default_rng(seed)
    lines = _inputs(rng)
    side = numpy_side()
    for line in lines:
        side.run(line, lambda a, chunks: a)
    known = {line.name: side.names[line.name] for line in lines}
    draw = Draw(rng, known)
    for _ in range(rng.integers(1, most + 1)):
        line = _step(rng, draw, f"v{len(lines)}")
        if line is None:
            continue
        lines.append(line)
        found = outcome(lambda line=line: kept(side.run(line, None)))
        name = line.name or line.changed
        if isinstance(found, np.ndarray) and found.size <= 400:
            known[name] = side.names[name] = found
    settings = {name: several[rng.integers(len(several))] for name, several in _CASES.items()}
    if rng.random() < 0.03:
        settings["scheduler"] = "processes"
    return Program(seed, tuple(lines), settings)


def _inputs(rng):
    shape = values.random_shape(rng)
    lines = []
    for at in range(rng.integers(1, 4)):
        own = shape
        if at and rng.random() < 0.5:
            own = tuple([1 if rng.random() < 0.3 else n for n in shape[rng.integers(0, 2):]])
        elif at and rng.random() < 0.3:
            own = values.random_shape(rng)
        a = values.values_of(rng, values.random_dtype(rng), own)
        lines.append(Line(values.as_code(a), f"v{at}", chunks=values.random_chunks(rng, own)))
    return lines


def _step(rng, draw, name):
    for _ in range(20):
        how, code = _CHOICES[rng.choice(len(_CHOICES), p=_WEIGHTS / _WEIGHTS.sum())]
        try:
            filled = draw.fill(code)
        except NothingFits:
            continue
        if how == "changes":
            return Line(filled, None, how, draw.x)
        return Line(filled, name, how)
    return None


def run(program):
    """Return the first difference of lazyflow from NumPy, or None, and how much was compared."""
    found = _lazily(program)
    if any(isinstance(each, RuntimeError) and _NO_KERNEL in str(each) for each in found):
        settings = {**program.settings, "kernels": "auto"}
        return run(Program(program.seed, program.lines, settings))
    side = numpy_side()
    compared = 0
    broken = set()  # variables that did not come about
    for line, mine in zip(program.lines, found, strict=True):
        name = line.name or line.changed
        if line.uses & broken:
            broken.add(name)
            continue
        before = {each: side.names.get(each) for each in line.uses}
        wanted = outcome(lambda line=line: kept(side.run(line, lambda a, chunks: a)))
        if mine is None:
            broken.add(name)
            continue
        compared += 1
        bound = _bound(line, before, program.settings)
        why = difference(mine, wanted, bound)
        if why is not None:
            if _is_again(program, line, before, mine, wanted):
                why = "again", why[1]
            return Different(program, line, *why, mine, wanted, before), compared
        if isinstance(wanted, np.ndarray):
            side.names[name] = mine.value if bound is not None else wanted
        elif line.changed is None or isinstance(wanted, Exception):
            broken.add(name)
    return None, compared


def _bound(line, before, settings):
    if line.how in ("sums", "moments"):
        return Inexact(line, before)
    if settings.get("math") != "numpy" and _ELEMENTARY.search(line.code):
        return NearlyNumpys()
    return None


def _is_again(program, line, before, mine, wanted):
    """Tell whether a difference may come of an inexact line's array, computed of other blocks."""
    inexact = any(each.how != "exact" for each in program.behind(line)[1:])
    return inexact and difference(mine, wanted, Inexact(line, before)) is None


def _lazily(program):
    """Return what lazyflow makes of each line: values or errors, computed together."""
    side = lazy_side()
    found, broken = [], set()
    with lazyflow.config.set(**program.settings):
        for line in program.lines:
            name = line.name or line.changed
            if line.uses & broken:
                broken.add(name)
                found.append(None)
                continue
            made = outcome(lambda line=line: side.run(line, la.from_array))
            if isinstance(made, Exception) or not isinstance(made, la.Array):
                broken.add(name)
            else:
                # as it is now: later lines may change it, and in NumPy's run it is a copy
                if line.changed is None:
                    side.names[name] = made if _COPIES.search(line.code) else la.Array(made.expr)
                made = la.Array(made.expr)
            found.append(made)
        return _computed(found)


def _computed(found):
    places = [at for at, each in enumerate(found) if isinstance(each, la.Array)]
    arrays = [found[at] for at in places]
    together = outcome(lambda: lazyflow.compute(*arrays))
    if isinstance(together, Exception):
        together = [outcome(each.compute) for each in arrays]
    for at, value in zip(places, together, strict=True):
        x = found[at]
        found[at] = value if isinstance(value, Exception) else Computed.of(x, value)
    return [
        kept(each) if not isinstance(each, Exception | Computed) and each is not None else each
        for each in found
    ]
