"""What is to be learned: classes or numbers, and how the targets of a part are encoded."""

from typing import NamedTuple

import numpy as np

from lazyflow.learn.data.places import Place

__all__ = ["ClassTargets", "NumberTargets", "Targets"]


class ClassTargets(NamedTuple):
    """Labels, of which there are `classes`, an ascending array.

    Examples
    --------
    >>> ClassTargets(np.array(["no", "yes"])).encoded(np.array(["yes", "no"]), Place()).ravel()
    array([ 1., -1.])
    """

    classes: np.ndarray

    @property
    def outputs(self) -> int:
        """The number of scores of a row.

        Examples
        --------
        >>> ClassTargets(np.arange(2)).outputs, ClassTargets(np.arange(3)).outputs
        (1, 3)
        """
        return 1 if len(self.classes) == 2 else len(self.classes)

    def encoded(self, y: np.ndarray, place: Place) -> np.ndarray:
        """Return -1 and 1 for two classes, else the number of each row's class: (rows, 1).

        Examples
        --------
        >>> ClassTargets(np.array([3, 5, 7])).encoded(np.array([7, 3]), Place()).ravel()
        array([2., 0.])
        """
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.ndim != 1:
            raise ValueError(
                f"y should be a 1d array, got an array of shape {y.shape} instead: y of {place}"
            )
        at = np.searchsorted(self.classes, y).astype(np.float64)
        return (at if self.outputs > 1 else 2.0 * at - 1.0)[:, None]


class NumberTargets(NamedTuple):
    """Numbers, `outputs` of them for each row.

    Examples
    --------
    >>> NumberTargets(1).encoded(np.array([1, 2]), Place()).ravel()
    array([1., 2.])
    """

    outputs: int

    def encoded(self, y: np.ndarray, place: Place) -> np.ndarray:
        """Return them as float64 (rows, outputs).

        Examples
        --------
        >>> NumberTargets(1).encoded(np.array([[1.5]]), Place())
        array([[1.5]])
        """
        if y.dtype.kind not in "fiub":
            raise ValueError(f"y of {place} has the dtype {y.dtype}; needed are real numbers")
        numbers = np.ascontiguousarray(y, np.float64)
        if numbers.ndim == 1:
            numbers = numbers[:, None]
        if numbers.ndim != 2:
            raise ValueError(
                f"y of {place} has the shape {y.shape}; needed is one row for each of X"
            )
        if numbers.shape[1] != self.outputs:
            raise ValueError(
                f"y of {place} has {numbers.shape[1]} columns, needed is {self.outputs}; several "
                "targets of lazy chunks come as one chunked array, see lazyflow.array.from_delayed"
            )
        if not np.isfinite(numbers).all():
            row = int(np.argwhere(~np.isfinite(numbers))[0, 0])
            raise ValueError(
                f"Input y contains NaN or infinity: y of {place.row(row)}, is {numbers[row]}"
            )
        return numbers


Targets = ClassTargets | NumberTargets
