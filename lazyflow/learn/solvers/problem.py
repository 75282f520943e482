"""What solvers minimise: the mean loss of kept rows, and penalties.

    F(theta) = 1/S sum_i s_i loss(x_i . w + b, y_i) + l2/2 |w|^2 + l1 |w|_1,    S = sum_i s_i

Intercepts b have no penalty. A chunk gives loss and gradient in one task, so rows are read once
per evaluation. `theta` is a leaf of a graph that is planned once: each evaluation puts other
values in and runs it.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lazyflow import delayed, trace
from lazyflow.learn.data.rows import Rows, tree_sum
from lazyflow.learn.kernels.losses import Loss
from lazyflow.learn.kernels.sums import hessian_sums, loss_sums

__all__ = ["Problem", "soft_threshold"]


def soft_threshold(values: Any, by: float) -> Any:
    """Return values that are moved towards 0 by `by`, and 0 where they are nearer than that.

    Examples
    --------
    >>> soft_threshold(np.array([3.0, -0.5]), 1.0)
    array([2., 0.])
    """
    return values - np.clip(values, -by, by)


@dataclass(frozen=True)
class Problem:
    """A loss over rows, with penalties.

    Attributes
    ----------
    rows : Rows
    loss : Loss
    l1, l2 : float
        Factors of the penalties beside the mean loss.
    free : bool
        Whether there are intercepts; without, they are 0.
    run : dict
        The keywords of `compute` (``scheduler=``, ``num_workers=``) for all tasks.

    Examples
    --------
    >>> from lazyflow.learn.data.inputs import RowChunk
    >>> from lazyflow.learn.data.rows import kept_rows
    >>> from lazyflow.learn.data.targets import NumberTargets
    >>> from lazyflow.learn.kernels.losses import SQUARES
    >>> rows = kept_rows([RowChunk(np.array([[3.0], [1.0]]), [1, 1], None)], NumberTargets(1), {})
    >>> problem = Problem(rows, SQUARES, l1=0.0, l2=1.0, free=False)
    >>> problem.value_and_gradient(np.array([[1.0, 0.0]]))
    (1.5, array([[4., 0.]]))
    """

    rows: Rows
    loss: Loss
    l1: float
    l2: float
    free: bool
    run: dict[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (K, d + 1) of `theta`, intercepts last.

        Examples
        --------
        >>> from lazyflow.learn.data.inputs import RowChunk
        >>> from lazyflow.learn.data.rows import kept_rows
        >>> from lazyflow.learn.data.targets import NumberTargets
        >>> from lazyflow.learn.kernels.losses import SQUARES
        >>> rows = kept_rows([RowChunk(np.ones((2, 3)), [1, 1], None)], NumberTargets(1), {})
        >>> Problem(rows, SQUARES, 0.0, 1.0, free=True).shape
        (1, 4)
        """
        return self.rows.targets.outputs, self.rows.n_features + 1

    @cached_property
    def _sums(self) -> Any:
        part = delayed(loss_sums)
        return trace(
            lambda theta: tree_sum([part(self.loss, theta, *chunk) for chunk in self.rows.chunks]),
            **self.run,
        )

    @cached_property
    def _second_sums(self) -> Any:
        part = delayed(hessian_sums)
        return trace(
            lambda theta: tree_sum([part(self.loss, theta, *chunk) for chunk in self.rows.chunks]),
            **self.run,
        )

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the smooth part, F without the l1 penalty, and its gradient (K, d + 1).
        """
        return self._penalised(theta, *self._sums(theta))

    def second_order(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return value, gradient and Hessian (K, d + 1, K, d + 1) of the smooth part.

        Examples
        --------
        >>> from lazyflow.learn.data.inputs import RowChunk
        >>> from lazyflow.learn.data.rows import kept_rows
        >>> from lazyflow.learn.data.targets import NumberTargets
        >>> from lazyflow.learn.kernels.losses import SQUARES
        >>> chunk = RowChunk(np.array([[3.0], [1.0]]), [1, 1], None)
        >>> rows = kept_rows([chunk], NumberTargets(1), {})
        >>> Problem(rows, SQUARES, 0.0, 1.0, free=True).second_order(np.zeros((1, 2)))[2]
        array([[[[6., 2.]],
        <BLANKLINE>
                [[2., 1.]]]])
        """
        loss, gradient, hessian = self._second_sums(theta)
        value, gradient = self._penalised(theta, loss, gradient)
        hessian = hessian / self.rows.total
        each = np.arange(theta.shape[1] - 1)
        for k in range(len(theta)):
            hessian[k, each, k, each] += self.l2
        return value, gradient, hessian

    def _penalised(
        self, theta: np.ndarray, loss: float, gradient: np.ndarray
    ) -> tuple[float, np.ndarray]:
        gradient = gradient / self.rows.total
        weights = theta[:, :-1]
        gradient[:, :-1] += self.l2 * weights
        if not self.free:
            gradient[:, -1] = 0.0
        return loss / self.rows.total + self.l2 / 2 * float((weights**2).sum()), gradient
