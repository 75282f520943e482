"""Tables of few whole numbers and their chances, and what kernels are checked with.

A draw of 63 bits is looked up: the highest bits choose a cell of a guide, which says where the
search for the first end above the draw begins (Chen and Asau: On generating random variates from
an empirical distribution, 1974). The search passes one end or none, mostly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.kernels.draws.formulas import CELLS, words_of

_FEWEST = 12  # bits of a guide: more of them and a group of draws would still meet an end


def table(chances: Any, least: int = 0) -> bytes:
    """Return the parameters of the formula "listed", for numbers from `least` on.

    chances
        Of each number, 0 or more, up to a common factor.
    """
    ends = np.cumsum(chances, dtype=float)
    ends = (ends / ends[-1] * 2.0**63).astype(np.uint64)
    bits = max(_FEWEST, len(ends).bit_length() + 1)
    guide = ends.searchsorted(np.arange(1 << bits, dtype=np.uint64) << (63 - bits), "right")
    passed = np.diff(guide, append=len(ends) - 1).max()  # at most: others of a group go on as far
    first = CELLS + len(guide)
    words = (guide + first).astype(np.uint64), ends, np.zeros(passed, np.uint64)
    return words_of(least - first, 64 - bits) + np.concatenate(words).tobytes()


#: Parameters with which kernels are checked: a quarter of the products of whole numbers is refused.
CHECKED = {
    "gamma": np.float64(1.25).tobytes(),
    "short_range": words_of(5, 3 << 30, 1 << 30),
    "long_range": words_of(5, 3 << 62, 1 << 62),
    "listed": table([0.0, 0.1, 0.0, 0.2, 0.7, 1e-4, 1e-5, 1e-5, 0.0], -3),
    "whole_steps": words_of(-5, 3),
    "steps": np.array([-5.1, 0.3]).tobytes(),
    "line": np.array([-5.1, 0.3]).tobytes() + words_of(700) + np.float64(9.9).tobytes(),
}
