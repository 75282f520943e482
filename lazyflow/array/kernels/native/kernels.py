"""Whether a pass runs by a kernel or by NumPy's functions, decided for runs and for reports.

A kernel reads each input once, writes nothing between, and takes a whole block without the GIL.
It gives the bits that NumPy's functions give: operations are IEEE's or NumPy's own loops,
reductions keep the order of order.py, and before a kernel is used its results are compared with
those of NumPy's functions on made-up values. When it raises a floating-point flag that the caller
asked to report, NumPy's functions run on parts of the block until they have reported it, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.draws.block import DrawnBlock
from lazyflow.array.kernels.native import compiler
from lazyflow.array.kernels.native.blocks import ELEMENTS, HALF, SUPPORTED
from lazyflow.array.kernels.native.calling import PassCall
from lazyflow.array.kernels.native.checking import difference
from lazyflow.array.kernels.native.compiler import Kernel
from lazyflow.array.kernels.native.elementary.formulas import OWN
from lazyflow.array.kernels.native.elementary.lanes import WIDTH
from lazyflow.array.kernels.native.layouts import SourceLayouts, source_layouts
from lazyflow.array.kernels.native.llvm_ir import called, places, write_kernel
from lazyflow.array.kernels.native.loops import loop_of
from lazyflow.array.kernels.native.operations import is_inline
from lazyflow.array.kernels.native.staging import (
    KernelSpec,
    make_spec,
    reads_in_place,
    stages_of,
)
from lazyflow.array.kernels.planning import ANY, BlockPass, BlockPlan, fits, scans_of
from lazyflow.array.kernels.program import CAST, ScanOperation, TileFunction
from lazyflow.recent import Recent

#: Elements of a run, from which a kernel is faster than NumPy's functions: a vector where it takes
#: functions of our own.
_SHORT = 8
_STREAMED = 1 << 22  # bytes of a block from which reductions leave the caches alone
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
    """By what a pass runs: by `kernel` as soon as it is compiled, or by NumPy's functions, and why.
    """

    why_whole: str
    sources: SourceLayouts | None = None
    prepared: PreparedKernel | None = None

    @property
    def kernel(self) -> Kernel | None:
        """The kernel to run by, or None: by NumPy's functions."""
        return None if self.why_whole or self.prepared is None else self.prepared.kernel


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
        """Keep the calls of all passes, for blocks of which none has to be copied."""
        self._calls[named] = calls

    def decide(
        self, some: BlockPass, values: Sequence[Any], mode: str, outs: Mapping[int, Any]
    ) -> Decision:
        """Return by what a pass runs over values, when `config.kernels` is `mode`.

        outs
            For outputs, by number, arrays that they may be written into.
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
            streams = in_place and sum(x.nbytes for x in sources.arrays) >= _STREAMED
            prepared = _prepared(make_spec(self.plan.lowered, some, layouts, in_place, streams))
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

    kernel = Kernel(write_kernel(spec, staging, "NAME"), check)
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
        if isinstance(step.op, TileFunction):
            return f"{step.op.name} is a function of whole blocks"
        if step.op is CAST:
            return f"astype from {step.loop[0]} to {step.loop[1]} is done by NumPy"
        if not isinstance(step.op, np.ufunc) or loop_of(step.op, step.loop) is None:
            named = ", ".join(map(str, step.loop[: len(step.operands)]))
            return f"{step.op.__name__} of {named} can't be called from a kernel"
    scanned = {step.results[0] for step in scans_of(spec.steps) if not step.operands[1:]}
    for value, kind, _ in spec.outputs:
        if kind == "last" and value not in scanned:
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
