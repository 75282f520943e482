"""`la.report` says the peak of memory that a run then has."""

import gc
import re
import tracemalloc

import numpy as np
import pytest

import lazyflow as lf
import lazyflow.array as la

SIDE = 1024
BLOCK = SIDE * SIDE // 16 * 8  # bytes of a block of these tests
NUMBERS = np.arange(SIDE * SIDE * 1.0).reshape(SIDE, SIDE)
UNITS = {"bytes": 1, "kB": 1e3, "MB": 1e6}


def rows():
    return la.from_array(NUMBERS, chunks=(SIDE // 16, SIDE))


def tiles():
    return la.from_array(NUMBERS, chunks=(SIDE // 4, SIDE // 4))


EXPRESSIONS = {
    "elementwise": lambda: (rows() * 2 + 1,),
    "reduction": lambda: ((rows() * 2).sum(),),
    "standardise": lambda: ((rows() - rows().mean(0)) / rows().std(0),),
    "cumsum": lambda: (la.cumsum(rows(), axis=0),),
    "product": lambda: (tiles() @ tiles(),),
    "gram": lambda: (rows().T @ rows(),),
    "stencil": lambda: (tiles().map_overlap(lambda b: b * 2.0, depth=1, dtype="f8"),),
    "rows to columns": lambda: (la.cumsum(rows(), axis=0).rechunk((SIDE, SIDE // 16)).max(0),),
    "transposed": lambda: (tiles() + tiles().T,),
    "one block": lambda: ((rows() * 2).rechunk(-1) + 1,),
    "concatenated": lambda: (la.concatenate([rows() + 1, rows() * 2]),),
    "shared": lambda: ((y := rows() * 3).sum(0), y.max(1), (y + 1).mean()),
    "sorted": lambda: (la.sort(tiles().rechunk((SIDE, SIDE // 16)), axis=0).sum(0),),
}


def projected(text):
    found = re.match(r"peak: about (\S+) (\w+) in memory at once on \d workers?, (\S+) (\w+) of it",
                     text.splitlines()[-1])
    return [float(found[k]) * UNITS[found[k + 1]] for k in (1, 3)]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_measured_peak_is_within_a_factor_and_a_few_blocks_of_the_projected_one(name):
    with lf.config.set(num_workers=2, scheduler="threads", kernels="numpy"):
        make = EXPRESSIONS[name]
        lf.compute(*make())  # modules are loaded
        arrays = make()
        peak, results = projected(la.report(*arrays))
        gc.collect()
        tracemalloc.start()
        try:
            values = lf.compute(*arrays)
            measured = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert results == pytest.approx(sum(value.nbytes for value in values), rel=0.01)
    # Beside what is read and returned, a task may have two blocks, and Python has objects.
    assert 0.75 * peak - BLOCK <= measured <= 1.25 * peak + 2 * 2 * BLOCK + 500_000
    assert results <= peak


def test_more_workers_and_a_limit_are_taken_into_account():
    x = (tiles() @ tiles()).sum()
    with lf.config.set(num_workers=1):
        one = la.report(x)
    with lf.config.set(num_workers=8, memory_limit="2 MB"):
        several = la.report(x)
    with lf.config.set(memory_limit=BLOCK):
        refused = la.report(x)
    assert "1 worker," in one and "memory_limit" not in one
    assert "the rest is written to files" in several
    assert "refused" in refused
    assert projected(several)[0] > projected(one)[0]


def test_unknown_lengths_are_told():
    x = rows()
    assert "peak: at least about" in la.report(x[x > 0.5] * 2)


def test_a_rechunk_that_will_go_through_a_file_needs_less():
    (x,) = EXPRESSIONS["rows to columns"]()
    peak = projected(la.report(x))[0]
    with lf.config.set(memory_limit="4 MB"):
        assert projected(la.report(x))[0] < peak / 2
