"""The objective of the solvers: the mean loss of kept rows, and penalties.

    F(theta) = 1/S sum_i s_i loss(x_i . w + b, y_i) + l2/2 |w|^2 + l1 |w|_1,    S = sum_i s_i

Intercepts b have no penalty. A chunk gives loss and gradient in one task, so rows are read once
per evaluation. The graph is planned once with `theta` as a leaf: each evaluation sets the leaf and
runs the graph.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lazyflow import compute, delayed, trace
from lazyflow.learn.data.inputs import RowChunk
from lazyflow.learn.data.rows import NumberTargets, Rows, kept_rows, tree_sum
from lazyflow.learn.kernels.losses import SQUARES, Loss
from lazyflow.learn.kernels.sums import RowSample, hessian_sums, loss_sums, mean_curvature


def soft_threshold(values: Any, by: float) -> Any:
    """Return values moved towards 0 by `by`, or 0 where they are closer than that.

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
        Whether intercepts are fitted; otherwise they are 0.
    run : dict
        The keywords of `compute` (``scheduler=``, ``num_workers=``) for all tasks.

    Examples
    --------
    >>> problem = Problem.of_squares([[3.0], [1.0]], [1, 1], free=False)
    >>> problem.value_and_gradient(np.array([[1.0, 0.0]]))
    (1.5, array([[4., 0.]]))
    """

    rows: Rows
    loss: Loss
    l1: float
    l2: float
    free: bool
    run: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_squares(cls, X: Any, y: Any, l2: float = 1.0, free: bool = True) -> "Problem":
        """Return the problem of rows in one chunk and one number for each, without l1 penalty.

        Examples
        --------
        >>> Problem.of_squares([[1.0], [-1.0]], [2, 0]).rows.n
        2
        """
        chunk = RowChunk(np.array(X), np.array(y), None)
        return cls(kept_rows([chunk], NumberTargets(1), {}), SQUARES, 0.0, l2, free)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (K, d + 1) of `theta`, intercepts last.

        Examples
        --------
        >>> Problem.of_squares(np.ones((2, 3)), [1, 1]).shape
        (1, 4)
        """
        return self.rows.targets.outputs, self.rows.n_features + 1

    @cached_property
    def _sums(self) -> Any:
        return trace(self._all_sums, **self.run)

    def _all_sums(self, theta: Any) -> Any:
        part = delayed(loss_sums)
        return tree_sum([part(self.loss, theta, *chunk) for chunk in self.rows.chunks])

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the smooth part, F without the l1 penalty, and its gradient (K, d + 1)."""
        return self._penalised(theta, *self._sums(theta))

    def every(self, least: int) -> int:
        """Return the n of a sample, "one in n rows", that has at least `least` rows; 1: all rows.

        Examples
        --------
        >>> problem = Problem.of_squares(np.ones((9, 1)), np.ones(9))
        >>> problem.every(3), problem.every(5)
        (3, 1)
        """
        return max(self.rows.n // least, 1)

    def hessian(self, theta: np.ndarray, every: int = 1) -> np.ndarray:
        """Return the Hessian (K, d + 1, K, d + 1) of the smooth part, of one in `every` rows.

        Examples
        --------
        >>> Problem.of_squares([[3.0], [1.0]], [1, 1]).hessian(np.zeros((1, 2)))
        array([[[[6., 2.]],
        <BLANKLINE>
                [[2., 1.]]]])
        """
        (found,) = compute(self._of_sample(hessian_sums, theta, every), **self.run)
        return self._penalised_hessian(*found)

    def second_order(
        self, theta: np.ndarray, every: int = 1
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return value, gradient, and the Hessian of one in `every` rows; lazy rows are made once.

        Examples
        --------
        >>> problem = Problem.of_squares(np.ones((2, 1)), [1, 1], free=False)
        >>> problem.second_order(np.zeros((1, 2)))[:2]
        (0.5, array([[-1.,  0.]]))
        """
        sums, sampled = compute(
            self._all_sums(theta), self._of_sample(hessian_sums, theta, every), **self.run
        )
        return *self._penalised(theta, *sums), self._penalised_hessian(*sampled)

    def _penalised_hessian(self, total: float, hessian: np.ndarray) -> np.ndarray:
        hessian = hessian / (total or 1.0)
        each = np.arange(hessian.shape[1] - 1)
        for k in range(len(hessian)):
            hessian[k, each, k, each] += self.l2
        return hessian

    def mean_curvature(
        self, theta: np.ndarray, every: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a mean Hessian of the loss (d + 1, d + 1), and how uncertain its diagonal is.

        Each Hessian is by one score; the mean is over scores and over a sample, one in `every`
        rows. The uncertainty is relative: 1 / k for a feature that k rows of the sample have.

        Examples
        --------
        >>> problem = Problem.of_squares([[3.0], [0.0]], [1, 1])
        >>> problem.mean_curvature(np.zeros((1, 2)), 1)
        (array([[4.5, 1.5],
               [1.5, 1. ]]), array([1. , 0.5]))
        """
        ((total, matrix, fourth),) = compute(
            self._of_sample(mean_curvature, theta, every), **self.run
        )
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.diag(matrix) ** 2
            uncertain = np.divide(fourth, squares, out=np.ones(len(fourth)), where=squares > 0)
        return matrix / (total or 1.0), uncertain

    def _of_sample(self, function: Callable[..., Any], theta: np.ndarray, every: int) -> Any:
        part = delayed(function)
        return tree_sum([
            part(self.loss, theta, *chunk, RowSample(every, number))
            for number, chunk in enumerate(self.rows.chunks)
        ])

    def _penalised(
        self, theta: np.ndarray, loss: float, gradient: np.ndarray
    ) -> tuple[float, np.ndarray]:
        gradient = gradient / self.rows.total
        weights = theta[:, :-1]
        gradient[:, :-1] += self.l2 * weights
        if not self.free:
            gradient[:, -1] = 0.0
        return loss / self.rows.total + self.l2 / 2 * float((weights**2).sum()), gradient
