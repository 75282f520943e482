"""A region of an array of random numbers, filled by a kernel, or by NumPy where there is none."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.array.kernels.draws.by_llvm import functions
from lazyflow.array.kernels.draws.by_numpy import draw_rows
from lazyflow.array.kernels.draws.formulas import FORMULAS, PAYS, parameters
from lazyflow.array.kernels.draws.tables import CHECKED
from lazyflow.array.kernels.native import compiler
from lazyflow.array.kernels.native.compiler import READY, Kernel
from lazyflow.array.kernels.native.kernel_files import folder
from lazyflow.array.kernels.native.modules import module_text

_WAITS = 1 << 19  # those that NumPy draws for longer than the compilation, which they wait for


def fill(
    formula: str, params: Any, shape: tuple[int, ...], region: tuple[slice, ...], out: Any
) -> None:
    """Write the values of a region of an array, slices of step 1, into an array of its shape."""
    if not out.size:
        return
    strides = [prod(shape[axis + 1:]) for axis in range(len(shape))]
    first = sum(span.start * stride for span, stride in zip(region, strides, strict=True))
    axes = _joined(out.shape, strides, out.strides, out.itemsize)
    view = np.lib.stride_tricks.as_strided(out, [n for n, _, _ in axes], [b for _, _, b in axes])
    kernel = _kernel(formula, out.dtype, out.size)
    for at in product(*[range(n) for n, _, _ in axes[:-2]]):
        place = first + sum(i * step for i, (_, step, _) in zip(at, axes, strict=False))
        across = axes[-2][1]
        if kernel is None:
            draw_rows(FORMULAS[formula], params, place, across, view[at])
        else:
            _call(kernel.function, params, place, across, view[at])


def _joined(shape: Any, places: Any, strides: Any, size: int) -> list[tuple[int, int, int]]:
    """Return axes that go over the same elements: lengths, steps in places, strides in bytes.

    There are two or more, and the last goes over neighbours.
    """
    found: list[tuple[int, int, int]] = []
    for n, step, stride in zip(shape, places, strides, strict=True):
        if found and (found[-1][1:] == (n * step, n * stride)):
            found[-1] = found[-1][0] * n, step, stride
        elif n > 1:
            found.append((n, step, stride))
    if not found or found[-1][1:] != (1, size):
        found.append((1, 1, size))
    return found if len(found) > 1 else [(1, 0, 0), *found]


@lru_cache(256)
def _kernel_of(formula: str, dtype: np.dtype[Any]) -> Kernel:
    return Kernel(_text(formula, dtype), lambda function: _difference(function, formula, dtype))


def _difference(function: Any, formula: str, dtype: np.dtype[Any]) -> str | None:
    """Return what is wrong with a new kernel: NumPy gives other bits, or None."""
    params = parameters((1, 2, 3), 4, CHECKED.get(formula, b""))
    found, expected = np.empty((2, 9, 131), dtype)
    _call(function, params, 6, 133, found)
    draw_rows(FORMULAS[formula], params, 6, 133, expected)
    same = found.tobytes() == expected.tobytes()
    return None if same else "it draws other numbers than NumPy's operations"


def _call(function: Any, params: Any, place: int, across: int, rows: Any) -> None:
    function(
        (ctypes.c_void_p * 2)(rows.ctypes.data, params.ctypes.data),
        (ctypes.c_int64 * 5)(place, *rows.shape, across, rows.strides[0]),
    )


def _kernel(formula: str, dtype: np.dtype[Any], size: int) -> Kernel | None:
    """Return the kernel if it is there, or worth waiting for; have it compiled if that pays."""
    if config.get("kernels") == "numpy" or compiler.unavailable():
        return None
    kernel = _kernel_of(formula, dtype)
    if kernel.state == READY:
        return kernel
    if size >= _WAITS or config.get("kernels") == "native":
        compiler.compile_now(kernel, folder())
    elif size >= PAYS:
        compiler.request(kernel, folder())
    return kernel if kernel.state == READY else None


def _text(formula: str, dtype: np.dtype[Any]) -> str:
    """Return the text of the module of a kernel that fills rows."""
    return module_text([*functions("draw", FORMULAS[formula], dtype), *_ROWS.splitlines()])


#: pointers    the first element, the parameters
#: numbers     its place, the rows, elements of a row, places and bytes from row to row
_ROWS = """
define i32 @NAME(ptr noalias %pointers, ptr noalias %numbers) {
entry:
  %out = load ptr, ptr %pointers
  %params.at = getelementptr ptr, ptr %pointers, i64 1
  %params = load ptr, ptr %params.at
  %first = load i64, ptr %numbers
  %rows.at = getelementptr i64, ptr %numbers, i64 1
  %rows = load i64, ptr %rows.at
  %n.at = getelementptr i64, ptr %numbers, i64 2
  %n = load i64, ptr %n.at
  %across.at = getelementptr i64, ptr %numbers, i64 3
  %across = load i64, ptr %across.at
  %over.at = getelementptr i64, ptr %numbers, i64 4
  %over = load i64, ptr %over.at
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r.next, %row ]
  %place = phi i64 [ %first, %entry ], [ %place.next, %row ]
  %to = phi ptr [ %out, %entry ], [ %to.next, %row ]
  call void @draw.row(i64 %place, i64 %n, ptr %params, ptr %to)
  %r.next = add i64 %r, 1
  %place.next = add i64 %place, %across
  %to.next = getelementptr i8, ptr %to, i64 %over
  %again = icmp slt i64 %r.next, %rows
  br i1 %again, label %row, label %finish
finish:
  ret i32 0
}
"""
