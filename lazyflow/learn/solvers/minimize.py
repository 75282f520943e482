"""`minimize`: minimises any sum over chunks by SciPy's L-BFGS.

SciPy runs at the caller; each evaluation is one pass over the chunks, with a task for each and a
tree of sums, so that only the value and the gradient come back. The chunks are persisted first, and
the graph is planned once and rerun with other x. With ``jac=False`` the tasks compute central
differences, with points inside the bounds: that is two calls for each element of x and each chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Literal

import numpy as np
from scipy.optimize import Bounds, OptimizeResult
from scipy.optimize import minimize as scipy_minimize

from lazyflow import delayed, persist, trace
from lazyflow.api.evaluate import SchedulerLike
from lazyflow.api.progress_events import as_work, went_on
from lazyflow.array.core import Array
from lazyflow.array.functions.storage.loading import to_delayed
from lazyflow.learn.data.rows import tree_sum

_STEP = float(np.finfo(np.float64).eps) ** (1 / 3)  # of central differences
_WRONG = 1e-3  # relative: no gradient of a right formula is so far from differences


@as_work("pass")
def minimize(
    fun_on_chunk: Callable[..., Any], x0: Any, data: Sequence[Any] | Array,
    method: Literal["L-BFGS-B"] = "L-BFGS-B", *, args: tuple[Any, ...] = (), jac: bool = True,
    check_gradient: bool = False, tol: float | None = None, bounds: Any = None,
    callback: Callable[[OptimizeResult], Any] | None = None,
    options: dict[str, Any] | None = None, scheduler: SchedulerLike | None = None,
    num_workers: int | None = None,
) -> OptimizeResult:
    """Minimise the sum of a function over chunks of data, like `scipy.optimize.minimize`.

    Parameters
    ----------
    fun_on_chunk
        Called as ``fun_on_chunk(x, chunk, *args)`` in a task for each chunk; returns the value of
        the chunk and its gradient in the shape of x. With ``jac=False`` it returns only the value;
        the tasks then compute gradients by central differences, with 2 calls for each element of
        x, and use points inside the bounds.
    x0
        The start, of any shape; `fun_on_chunk` gets x in the same shape.
    data
        The chunks: values, or lazy values, which stay where they are made; or a chunked array,
        which is used in chunks of whole rows.
    method
        "L-BFGS-B".
    check_gradient
        True: first compare the gradient at x0 with central differences, along a random direction.
    tol, bounds, callback, options
        As SciPy's; `bounds` are for the elements of x in C order.
    scheduler, num_workers
        As in `compute`.

    Returns
    -------
    OptimizeResult
        That of SciPy; ``x`` and ``jac`` have the shape of x0.

    Raises
    ------
    ValueError
        Another method, no chunks, bounds that SciPy refuses, a gradient of another shape, or one
        that differs from central differences.
    TypeError
        With ``jac=False``, `fun_on_chunk` returns a tuple.

    Examples
    --------
    >>> def squares(x, chunk):
    ...     residual = chunk - x
    ...     return (residual**2).sum(), -2 * residual.sum(axis=0)
    >>> chunks = [np.array([[1.0, 2.0]]), np.array([[3.0, 6.0], [2.0, 4.0]])]
    >>> minimize(squares, np.zeros(2), chunks).x.round(6)
    array([2., 4.])
    """
    if method != "L-BFGS-B":
        raise ValueError(f'method must be "L-BFGS-B", not {method!r}')
    if isinstance(data, Array):
        apart = {axis: -1 for axis in range(1, data.ndim) if data.numblocks[axis] > 1}
        data = list(to_delayed(data.rechunk(apart) if apart else data).flat)
    if not len(data):
        raise ValueError("there are no chunks: data is empty")
    start = np.array(x0, np.float64)
    run: dict[str, Any] = {"scheduler": scheduler, "num_workers": num_workers}
    (chunks,) = persist([delayed(chunk) for chunk in data], **run)
    low, high = _limits(bounds, start)
    start = np.clip(start, low, high)
    part = delayed(_with_gradient if jac else partial(_with_differences, low, high))
    total = trace(
        lambda x: tree_sum([part(fun_on_chunk, x, chunk, args) for chunk in chunks]), **run
    )
    if check_gradient and jac:
        _check(total, start, low, high)

    passes = count(1)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = total(flat.reshape(start.shape))
        went_on(next(passes), lambda: f"gradient norm {abs(gradient).max(initial=0.0):.2g}")
        return value, gradient.ravel()

    found = scipy_minimize(
        objective, start.ravel(), jac=True, method=method, tol=tol, bounds=bounds,
        callback=callback, options=options,
    )
    if "jac" not in found:  # the bounds are equal, and leave nothing to search
        found.jac = objective(found.x)[1]
    found.x, found.jac = found.x.reshape(start.shape), found.jac.reshape(start.shape)
    return found


def _with_gradient(
    fun_on_chunk: Callable[..., Any], x: np.ndarray, chunk: Any, args: tuple[Any, ...]
) -> tuple[float, np.ndarray]:
    """Return value and gradient of one chunk."""
    returned = fun_on_chunk(x, chunk, *args)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise ValueError(
            f"the function returned {type(returned).__name__}; needed is (value, gradient), or "
            "jac=False for a function of values only"
        )
    value, gradient = returned
    gradient = np.asarray(gradient, np.float64)
    if gradient.shape != x.shape:
        raise ValueError(f"the gradient has the shape {gradient.shape}, x has {x.shape}")
    return float(value), gradient


def _limits(bounds: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest x, of SciPy's two forms of bounds; infinity for none."""
    low, high = np.full(x.size, -np.inf), np.full(x.size, np.inf)
    if isinstance(bounds, Bounds):
        low[:], high[:] = bounds.lb, bounds.ub
    elif bounds is not None:
        pairs = list(bounds)
        if len(pairs) != x.size:
            raise ValueError(f"bounds are {len(pairs)} pairs, and x0 has {x.size} elements")
        low[:] = [-np.inf if least is None else least for least, _ in pairs]
        high[:] = [np.inf if most is None else most for _, most in pairs]
    if (low > high).any():
        at = np.flatnonzero(low > high)[0]
        raise ValueError(
            f"bounds of element {at} leave nothing: {low[at]:g} to {high[at]:g}"
        )
    return low.reshape(x.shape), high.reshape(x.shape)


def _slope(value: float, first: tuple[float, float], second: tuple[float, float]) -> float:
    """Return the slope at 0 of the parabola through `value` there and two points (at, value)."""
    (p, at_p), (q, at_q) = first, second
    return ((at_p - value) * (q / p) - (at_q - value) * (p / q)) / (q - p)


def _with_differences(
    low: np.ndarray, high: np.ndarray, fun_on_chunk: Callable[..., Any], x: np.ndarray,
    chunk: Any, args: tuple[Any, ...],
) -> tuple[float, np.ndarray]:
    """Return value and central differences of one chunk."""
    value = fun_on_chunk(x, chunk, *args)
    if isinstance(value, tuple):
        raise TypeError("the function returned tuple; needed is a value, or jac=True")
    gradient = np.empty_like(x)
    moved = x.copy()
    for at in np.ndindex(x.shape):
        step = _STEP * max(1.0, abs(float(x[at])))
        below, above = float(x[at] - low[at]), float(high[at] - x[at])
        steps = (step, -step)
        if min(below, above) < step:  # both points on the wider side
            far = min(2 * step, max(below, above)) * (1 if above >= below else -1)
            steps = (far / 2, far)
        points = []
        for each in steps:
            moved[at] = np.clip(x[at] + each, low[at], high[at])
            points.append((float(moved[at] - x[at]), float(fun_on_chunk(moved, chunk, *args))))
        moved[at] = x[at]
        alone = 0.0 in {points[0][0], points[1][0], points[0][0] - points[1][0]}
        gradient[at] = 0.0 if alone else _slope(float(value), *points)  # it can't move
    return float(value), gradient


def _check(
    total: Callable[[np.ndarray], Any], x: np.ndarray, low: np.ndarray, high: np.ndarray
) -> None:
    """Compare the gradient along a direction with differences: three passes for any x."""
    direction = np.random.default_rng(0).normal(size=x.shape)
    direction /= np.linalg.norm(direction)
    step = _STEP * max(1.0, float(abs(x).max(initial=0.0)))
    steps = (step, -step)
    if ((x - low < step) | (high - x < step)).any():  # both points inside
        inward = np.where(high - x >= x - low, 1.0, -1.0)
        room = np.maximum(high - x, x - low)
        direction = inward * np.minimum(abs(direction), room / (2 * step))
        steps = (step, 2 * step)
    value, gradient = total(x)
    slope = float((gradient * direction).sum())
    one, other = [(s, total(np.clip(x + s * direction, low, high))[0]) for s in steps]
    difference = _slope(value, one, other)
    scale = max(abs(slope), abs(float(difference)), 1e-6)
    if not abs(slope - difference) <= _WRONG * scale:
        raise ValueError(
            f"the gradient is wrong: along a random direction at x0 it says {slope:.6g}, central "
            f"differences of the value say {difference:.6g}"
        )
