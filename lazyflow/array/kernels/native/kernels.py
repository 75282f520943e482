"""Whether a pass runs by a kernel or by NumPy's functions, decided for runs and for reports.

A kernel reads each input once, writes nothing between, and takes a whole block without the GIL.
It gives the bits that NumPy's functions give: operations are IEEE's or NumPy's own loops,
reductions keep the order of order.py, and before a kernel is used its results are compared with
those of NumPy's functions on made-up values. When it raises a floating-point flag that the caller
asked to report, NumPy's functions run on parts of the block until they have reported it, too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from lazyflow import config
from lazyflow.array.kernels.draws.draw import DrawnBlock, made, made_up_draw
from lazyflow.array.kernels.float_warnings import FloatReports
from lazyflow.array.kernels.native import compiler
from lazyflow.array.kernels.native.calling import (
    PassCall,
    SourceLayouts,
    finish_output,
    source_layouts,
)
from lazyflow.array.kernels.native.compiler import Kernel
from lazyflow.array.kernels.native.elementary.formulas import OWN
from lazyflow.array.kernels.native.elementary.lanes import WIDTH
from lazyflow.array.kernels.native.llvm_ir import Writer, called, places
from lazyflow.array.kernels.native.operations import ELEMENTS, HALF, SUPPORTED, is_inline
from lazyflow.array.kernels.native.staging import KernelSpec, make_spec, reads_in_place, stages_of
from lazyflow.array.kernels.numpy_kernels import run_whole
from lazyflow.array.kernels.order import LAST, Reduction
from lazyflow.array.kernels.planning import (
    ANY,
    CONSTANT,
    DRAWN,
    FLAT,
    LINES,
    SAME,
    BlockPass,
    BlockPlan,
    carries_of,
    fits,
    lines_of,
    make_plan,
    scans_of,
)
from lazyflow.array.kernels.program import (
    CAST,
    BlockFunction,
    Lowered,
    Output,
    ScanOperation,
)
from lazyflow.recent import Recent

# -- the check that a new kernel gives the bits of NumPy's functions, on values made up for it

_SHAPE = (37, 531)  # full and short blocks of lanes, full and short vectors


def _values(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        small = rng.integers(max(limits.min, -9), 9, shape).astype(dtype)
        large = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, small, large)
    usual = rng.standard_normal(shape) * 10.0 ** rng.integers(-5, 5, shape)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -2.0, 0.5, 1e-310, 1e300])
    # In a corner only: most sums of rows and columns have to be numbers, that they tell something.
    corner = shape[0] // 2, shape[1] // 2
    there = rng.random(corner) < 0.4
    usual[: corner[0], : corner[1]][there] = rng.choice(special, np.count_nonzero(there))
    return usual.astype(dtype)


def _with_layout(
    rng: np.random.Generator, dtype: np.dtype[Any], layout: str, axis: int | None
) -> Any:
    rows, row = _SHAPE
    if layout[0] == DRAWN:
        draw = made_up_draw(layout[1:], dtype, (rows, row + 3))
        return DrawnBlock(draw, (slice(0, rows), slice(1, row + 1)))
    if layout == CONSTANT:
        return np.asarray(rng.choice([2.0, 0.5, 3.0])).astype(dtype)
    if layout == FLAT:
        return _values(rng, dtype, _SHAPE)
    if layout == LINES:
        return _values(rng, dtype, lines_of(_SHAPE, axis or 0))
    if layout == SAME:
        return np.broadcast_to(_values(rng, dtype, (rows, 1)), _SHAPE)
    if layout == ANY:
        return _values(rng, dtype, (rows, 2 * row))[:, ::2]
    return _values(rng, dtype, (rows, row + 3))[:, :row]


def difference(spec: KernelSpec, loops: Sequence[int], scratch: int, function: Any) -> str | None:
    """Return how the results of a kernel differ from those of NumPy's functions, or None."""
    rng = np.random.default_rng(len(spec.dtypes))
    steps = tuple([  # of any axis: the kernel gets its lengths
        step._replace(op=step.op._replace(axis=max(step.op.axis, -2)))
        if step in scans_of(spec.steps) else step
        for step in spec.steps
    ])
    carries = carries_of(steps)
    with np.errstate(all="ignore"):
        blocks = [
            _with_layout(rng, dtype, layout, carries.get(at))
            for at, (dtype, layout) in enumerate(spec.sources)
        ]
    axes = (0,) if spec.in_columns else (1,)
    lasts = {step.results[0]: (step.op.axis % 2,) for step in scans_of(steps)}
    outputs = tuple(
        Output(value, Reduction(kind, own, spec.dtypes[value], mask) if kind else None, mask)
        for value, kind, mask in spec.outputs
        for own in [lasts[value] if kind is LAST else axes]
    )
    lowered = Lowered(len(spec.sources), steps, outputs, spec.dtypes)
    plan = make_plan(lowered, [x.shape for x in blocks])._replace(why_whole="")
    values = [*blocks, *[None] * (len(spec.dtypes) - len(blocks))]
    with np.errstate(all="ignore"), FloatReports() as reports:
        with config.set(kernels="numpy"):  # not by a kernel that would have to be compiled now
            plain = list(map(made, blocks))
        expected = run_whole(plan, plain, reports, {})
        for some in plan.passes:
            sources = source_layouts(plan, some, values, {})
            if sources.layouts != tuple(layout for _, layout in spec.sources):
                return "it could not be checked"
            call = PassCall(function, plan, some, sources, loops, scratch)
            written, _ = call(sources.arrays, sources.outs)
            for at, own in zip(some.outputs, written, strict=True):
                got = finish_output(plan, at, own)
                wrong = _differing(expected[at], got)
                if wrong:
                    return f"output {at} has other bits than NumPy's in {wrong} elements"
    return None


def _differing(a: Any, b: Any) -> int:
    same = a == b
    if a.dtype.kind == "f":
        same = (same & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    return int(a.size - np.count_nonzero(same))


# -- the addresses of NumPy's inner loops: ufuncs called from generated code, without the GIL

#: Of zeros of both signs, the loops of these give one that depends on the place in a vector.
_EXCLUDED = {np.fmax, np.fmin}


class Loop(NamedTuple):
    """The address of a loop, and that of the data that it has to be given."""

    function: int
    data: int


class _UFunc(ctypes.Structure):
    """The public part of PyUFuncObject (numpy/ufuncobject.h)."""

    _fields_ = [
        ("head", ctypes.c_char * object.__basicsize__),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved1", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_byte)),
    ]


@lru_cache(1024)
def loop_of(ufunc: np.ufunc, dtypes: tuple[np.dtype[Any], ...]) -> Loop | None:
    """Return the loop of a ufunc for exactly these dtypes, or None.

    >>> f8 = np.dtype("f8")
    >>> loop_of(np.exp, (f8, f8)) is not None, loop_of(np.exp, (f8, np.dtype("i8"))) is None
    (True, True)
    """
    if ufunc in _EXCLUDED or any(dtype not in ELEMENTS for dtype in dtypes):
        return None
    if ufunc is np.power and dtypes[0].kind in "iu":
        return None  # it needs the GIL to refuse negative powers
    found = _UFunc.from_address(id(ufunc))
    if (found.nin, found.nout, found.ntypes) != (ufunc.nin, ufunc.nout, ufunc.ntypes):
        return None  # another layout than the one above
    wanted = [dtype.num for dtype in dtypes]
    for at in range(found.ntypes):
        if [found.types[at * found.nargs + n] for n in range(found.nargs)] == wanted:
            return (
                Loop(found.functions[at] or 0, found.data[at] or 0) if found.functions[at] else None
            )
    return None


#: Elements of a run, from which a kernel is faster than NumPy's functions: a vector where it takes
#: functions of our own.
_SHORT = 8
_MOST = 256  # kernels that are remembered, and up to as many older ones
_LAYOUTS = 64  # of the blocks of a plan, likewise


class PreparedKernel(NamedTuple):
    """The kernel for a specification, or why there is none.

    refusal
        Why no kernel can be generated; empty when there is one.
    loops
        Addresses of NumPy's loops and of their data, in the order of the kernel's stages.
    scratch
        How many values go through scratch memory.
    """

    refusal: str
    kernel: Kernel | None
    loops: tuple[int, ...]
    scratch: int


class Decision(NamedTuple):
    """How a pass runs: by `kernel` once it is compiled, or by NumPy's functions, and why."""

    why_whole: str
    sources: SourceLayouts | None = None
    prepared: PreparedKernel | None = None

    @property
    def kernel(self) -> Kernel | None:
        """The kernel to run by, or None: by NumPy's functions."""
        return None if self.why_whole or self.prepared is None else self.prepared.kernel


# -- kernels of a plan, and whether they are used -----------------------------------------


class PlanKernels:
    """The kernels of the passes of a plan, found when they are first asked for."""

    def __init__(self, plan: BlockPlan) -> None:
        self.plan = plan
        self._kernels: dict[Any, PreparedKernel] = {}
        self._calls: Recent[Any, list[PassCall]] = Recent(_LAYOUTS)

    @cached_property
    def refusal(self) -> str:
        """Why a pass can't have a kernel, wherever its sources lie; empty if all can."""
        specs = (
            make_spec(self.plan.lowered, some, (ANY,) * len(some.sources))
            for some in self.plan.passes
        )
        return next(filter(None, map(_why_refused, specs)), "")

    def calls(self, mode: str, blocks: Sequence[Any], outs: Mapping[int, Any]) -> Any:
        """Return a key for blocks that lie so, and the calls of all passes if they were kept.

        Both are None where NumPy's functions have to run.
        """
        if mode == "numpy" or self.plan.size <= 1:
            return None, None
        if mode == "auto" and (self.plan.why_whole or self.refusal):
            return None, None
        named = mode, *map(_layout, blocks), *[
            (at, _layout(out)) for at, out in outs.items() if fits(self.plan, at, out)
        ]
        return named, self._calls.get(named)

    def keep(self, named: Any, calls: list[PassCall]) -> None:
        """Keep the calls of all passes, for blocks that need no copy."""
        self._calls[named] = calls

    def decide(
        self, some: BlockPass, values: Sequence[Any], mode: str, outs: Mapping[int, Any]
    ) -> Decision:
        """Decide whether a kernel or NumPy runs a pass over values; `mode` is `config.kernels`.

        outs
            By the number of an output: the array that it may be written into.
        """
        if mode == "numpy":
            return Decision('kernels="numpy" is set')
        why = self.refusal or (self.plan.why_whole if mode == "auto" else "")
        if why:
            return Decision(why)
        sources = source_layouts(self.plan, some, values, outs)
        layouts, row = sources.layouts, sources.row
        named = some.outputs, layouts, row
        prepared = self._kernels.get(named)
        if prepared is None:
            in_place = reads_in_place(self.plan.lowered, some, layouts, row)
            prepared = _prepared(make_spec(self.plan.lowered, some, layouts, in_place))
            self._kernels[named] = prepared
        why = prepared.refusal or (_short_runs(some, sources) if mode == "auto" else "")
        return Decision(why, sources, prepared)


def _layout(x: Any) -> Any:
    """Return what tells how a block lies in memory, whose shape and dtype are known."""
    return (x.strides, x.draw.formula if type(x) is DrawnBlock else x.flags.aligned)


_known: Recent[KernelSpec, PreparedKernel] = Recent(_MOST)


def _prepared(spec: KernelSpec) -> PreparedKernel:
    """Return the kernel for a specification; all programs that have it share the kernel."""
    found = _known.get(spec)
    if found is None:
        found = _prepare(spec)
        if found.kernel is not None:
            found = _known.setdefault(spec, found)
    return found


def _prepare(spec: KernelSpec) -> PreparedKernel:
    refusal = _why_refused(spec)
    if refusal:
        return PreparedKernel(refusal, None, (), 0)
    staging = stages_of(spec)
    addresses = []
    for stage in staging.stages:
        for step in called(stage.loops):
            loop = loop_of(step.op, step.loop)
            assert loop is not None
            addresses += [loop.function, loop.data]
    loops, scratch = tuple(addresses), len(places(spec, staging))

    def check(function: Any) -> str | None:
        return difference(spec, loops, scratch, function)

    kernel = Kernel(lambda: Writer(spec, staging).write(), check)
    return PreparedKernel("", kernel, loops, scratch)


def _why_refused(spec: KernelSpec) -> str:
    """Return why no kernel can be generated; empty if it can."""
    for dtype, _ in spec.sources:
        if dtype not in ELEMENTS:
            return f"there are no kernels for values of dtype {dtype}"
    for step in spec.steps:
        if is_inline(step.op, step.loop):
            continue
        if isinstance(step.op, ScanOperation):
            if step.loop[0] in SUPPORTED and is_inline(step.op.ufunc, step.loop[:1] * 3):
                continue
            return f"{step.op.name} of {step.loop[0]} is done by NumPy"
        if isinstance(step.op, BlockFunction):
            return f"{step.op.name} is a function of whole blocks"
        if step.op is CAST:
            return f"astype from {step.loop[0]} to {step.loop[1]} is done by NumPy"
        if not isinstance(step.op, np.ufunc) or loop_of(step.op, step.loop) is None:
            named = ", ".join(map(str, step.loop[: len(step.operands)]))
            return f"{step.op.__name__} of {named} can't be called from a kernel"
    scanned = {step.results[0] for step in scans_of(spec.steps) if not step.operands[1:]}
    for value, kind, _ in spec.outputs:
        if kind is LAST and value not in scanned:
            return "the ends of blocks are taken by NumPy"
        if kind is not None and spec.dtypes[value] == HALF:
            return "float16 is reduced by NumPy"
        if spec.dtypes[value] not in ELEMENTS:
            return f"there are no kernels for values of dtype {spec.dtypes[value]}"
    return compiler.unavailable()


def _short_runs(some: BlockPass, sources: SourceLayouts) -> str:
    """Return why the runs are too short for a kernel; empty if they are not."""
    if sources.row >= (WIDTH if any(step.op in OWN for step in some.steps) else _SHORT):
        return ""
    return f"runs of {sources.row} elements are too short for a kernel"
