"""NumPy ufuncs around our compiled exp, log and others: whole arrays get the bits of kernels.

A ufunc is made when a program first needs one for a function and a dtype: it is compiled or read
from disk, then compared with NumPy's for about a thousand numbers. If it is off by more than eight
units in the last place, or nothing can be compiled, NumPy's ufunc stays in use; so it does for
dtypes other than float64 and float32. Elements that do not lie one after another are gathered into
vectors, so that their bits do not depend on the layout. The ufuncs are never freed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from operator import is_
from typing import Any

import numpy as np

from lazyflow.array.kernels.native.compiler import READY, Kernel, compile_now, folder
from lazyflow.array.kernels.native.elementary.formulas import FORMULAS, OWN
from lazyflow.array.kernels.native.elementary.lanes import WIDTH
from lazyflow.array.kernels.native.llvm_text import Text, module_text
from lazyflow.array.kernels.native.operations import FLOATS, Body, elementary
from lazyflow.array.kernels.program import Lowered, LoweredStep, needed

Loop = tuple[np.dtype[Any], ...]

_made: dict[tuple[Any, Loop, str], Any] = {}
#: The function with two results, and those of ours for each.
_PARTS = {np.divmod: (np.floor_divide, np.remainder)}
_kept_alive: list[Any] = []  # what ufuncs point to


def with_own_functions(lowered: Lowered) -> Lowered:
    """Return steps that call the functions of this package, where it has them."""
    steps = [part for step in lowered.steps for part in _own_steps(step)]
    ends = {n for output in lowered.outputs for n in output.values}
    return lowered._replace(steps=tuple(needed(steps, ends)))


def _own_steps(step: LoweredStep) -> list[LoweredStep]:
    ops = _PARTS.get(step.op, (step.op,))
    if any(op not in FORMULAS for op in ops):
        return [step]
    loop = step.loop[: len(step.operands) + 1]
    own = [own_ufunc(op, loop, step.op.__name__) for op in ops]
    if len(own) > 1 and any(map(is_, own, ops)):
        return [step]
    return [
        LoweredStep(op, step.operands, loop, (n,))
        for op, n in zip(own, step.results, strict=True)
    ]


def own_ufunc(op: np.ufunc, loop: Loop, name: str) -> Any:
    """Return our ufunc for one of NumPy's, which is compiled or read from disk; or NumPy's.

    It is NumPy's for other numbers than float64 and float32, and where nothing can be compiled.

    name
        What it is called in warnings.
    """
    if any(dtype != loop[0] for dtype in loop) or loop[0] not in FLOATS:
        return op
    found = _made.get((op, loop, name))
    if found is None:
        found = _make(op, loop, name)
        found = _made.setdefault((op, loop, name), found)
        if found is not op:
            OWN[found] = op.__name__
    return found


def _make(op: np.ufunc, loop: Loop, name: str) -> Any:
    def check(function: Any) -> str | None:
        return _difference(_ufunc(op, loop, function, name), op, loop[0])

    kernel = Kernel(lambda: _text(op, loop), check)
    compile_now(kernel, folder())
    return _ufunc(op, loop, kernel.function, name) if kernel.state == READY else op


def _ufunc(op: np.ufunc, loop: Loop, function: Any, called: str) -> Any:
    """Return a ufunc of one loop at an address; it stays for ever, as NumPy's do."""
    capsule = ctypes.py_object(np._core._multiarray_umath._UFUNC_API)  # type: ignore[attr-defined]
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(get(capsule, None) or 0, ctypes.POINTER(ctypes.c_void_p))
    from_functions = ctypes.PYFUNCTYPE(
        ctypes.py_object,
        *[ctypes.c_void_p] * 3,
        *[ctypes.c_int] * 4,
        *[ctypes.c_char_p] * 2,
        ctypes.c_int,
    )(table[1] or 0)  # PyUFunc_FromFuncAndData
    address = ctypes.cast(function, ctypes.c_void_p).value
    parts = (
        (ctypes.c_void_p * 1)(address),
        (ctypes.c_void_p * 1)(None),
        (ctypes.c_ubyte * len(loop))(*[dtype.num for dtype in loop]),
        ctypes.create_string_buffer(called.encode()),
    )
    _kept_alive.append((function, parts))
    functions, data, types, name = parts
    return from_functions(functions, data, types, 1, op.nin, op.nout, -1, name, b"", 0)


def _difference(own: Any, op: np.ufunc, dtype: np.dtype[Any]) -> str | None:
    """Return where a compiled function is far from NumPy's, or None."""
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 1e-310, 1e30, -1e30]
    x = np.append(rng.standard_normal(1000) * 10.0 ** rng.integers(-5, 5, 1000), special)
    given = [x.astype(dtype), rng.permutation(x).astype(dtype)][: op.nin]
    with np.errstate(all="ignore"):
        found, wanted = own(*given), op(*given)
        near = np.abs(found - wanted) <= 8 * np.spacing(np.abs(wanted))
    good = near | (found == wanted) | np.isnan(found) & np.isnan(wanted)
    return None if good.all() else f"{op.__name__} of {given[0][~good][0]} is not NumPy's"


def _text(op: np.ufunc, loop: Loop) -> str:
    """Return a module with the inner loop of a ufunc: by whole vectors, or gathered ones."""
    text = Text()
    b, wide, apart = text.body, text.at(WIDTH), Body(WIDTH, text.lines, text.names, apart=True)
    text.label("entry")
    count = b.let("load i64, ptr %count")
    b.do(f"br i1 {b.let(f'icmp sgt i64 {count}, 0')}, label %some, label %end")
    text.label("some")
    text.arguments("ptr", "%args", [f"data{at}" for at in range(len(loop))])
    text.arguments("i64", "%steps", [f"stride{at}" for at in range(len(loop))])
    fronts, flat = [f"%data{at}" for at in range(len(loop))], "true"
    for at, dtype in enumerate(loop):
        follows = b.let(f"icmp eq i64 %stride{at}, {dtype.itemsize}")
        if at < len(loop) - 1:
            same = b.let(f"icmp eq i64 %stride{at}, 0")
            first = _copies(text, dtype, fronts[at])
            fronts[at] = b.let(f"select i1 {same}, ptr {first}, ptr {fronts[at]}")
            follows = b.let(f"or i1 {follows}, {same}")
        flat = b.let(f"and i1 {flat}, {follows}")

    def vector(b: Body, number: str) -> None:
        first = b.let(f"mul i64 {number}, {WIDTH}")
        full = b.let(f"icmp sle i64 {b.let(f'add i64 {first}, {WIDTH}')}, {count}")
        b.do(f"br i1 {b.let(f'and i1 {flat}, {full}')}, label %flat, label %gathered")
        text.label("flat")
        write(wide, [place(at, start, first) for at, start in enumerate(fronts)])
        text.label("gathered")
        indices = [first]
        for lane in range(1, WIDTH):  # after the end the last one again
            index = b.let(f"add i64 {first}, {lane}")
            inside = b.let(f"icmp slt i64 {index}, {count}")
            indices.append(b.let(f"select i1 {inside}, i64 {index}, i64 {indices[-1]}"))
        write(apart, [[place(at, f"%data{at}", n) for n in indices] for at in range(len(loop))])
        text.label("written")

    def place(at: int, start: str, index: str) -> str:
        return b.let(f"getelementptr i8, ptr {start}, i64 {b.let(f'mul i64 {index}, %stride{at}')}")

    def write(b: Body, places: Sequence[str | list[str]]) -> None:
        given = [text.load(b, *pair) for pair in zip(places[:-1], loop, strict=False)]
        text.store(b, elementary(b, op.__name__, loop[0], given), places[-1], loop[-1])
        b.do("br label %written")

    many = b.let(f"udiv i64 {b.let(f'add i64 {count}, {WIDTH - 1}')}, {WIDTH}")
    text.each("vector", many, vector)
    b.do("br label %end")
    text.label("end")
    b.do("ret void")
    head = "define void @NAME(ptr %args, ptr %count, ptr %steps, ptr %data) {"
    return module_text([head, *text.lines, "}"])


def _copies(text: Text, dtype: np.dtype[Any], pointer: str) -> str:
    """Return a pointer to a vector of the first element."""
    b, wide = text.body, text.at(WIDTH)
    place = b.let(f"alloca {wide.type(dtype)}")
    text.store(wide, wide.splat(text.load(b, pointer, dtype), dtype), place, dtype)
    return place
