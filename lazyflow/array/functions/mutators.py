"""Functions of NumPy that write into their argument: what to type instead."""

from __future__ import annotations

from typing import Any

import numpy as np


def _refused(function: Any, instead: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"np.{function.__name__} writes into its argument, which it cannot do with a chunked "
            f"array. {instead}"
        )

    refuse.__name__ = function.__name__
    return refuse


put = _refused(np.put, "Write x[places] = values, where places count along an axis.")
place = _refused(np.place, "Write x[mask] = values.")
putmask = _refused(np.putmask, "Write x[mask] = values, or x = la.where(mask, values, x).")
copyto = _refused(np.copyto, "Write x[...] = values.")
put_along_axis = _refused(
    np.put_along_axis, "Write x[places] = values for each row, or use x.map_blocks(...)."
)
fill_diagonal = _refused(
    np.fill_diagonal, "Write x = la.where(la.eye(n, dtype=bool), value, x)."
)
