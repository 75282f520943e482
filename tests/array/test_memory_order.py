"""Arrays whose axes lie in memory in another order than that of C: Fortran's, and others."""

from itertools import permutations

import numpy as np
import pytest
from array_checks import same_values

import lazyflow
import lazyflow.array as la
from lazyflow import delayed
from lazyflow.array.nodes.elementwise import Fused
from lazyflow.array.nodes.expr import below
from lazyflow.array.passes.rewrites import optimize
from lazyflow.array.passes.spec import check as check_nodes

RNG = np.random.default_rng(8)
DATA = RNG.random((40, 30, 20))
DATA[RNG.random(DATA.shape) < 0.1] = np.nan

OPERATIONS = {
    "one": lambda m, x, c: x * 2,
    "stretched": lambda m, x, c: x * x[0] - x[:, :1] + x[..., 3][..., None],
    "with C order": lambda m, x, c: x * c - 1,
    "sums": lambda m, x, c: [m.nansum(x, axis) for axis in (0, 1, 2, (0, 2), None)],
    "kept": lambda m, x, c: x - m.nanmean(x, axis=1, keepdims=True),
    "moments": lambda m, x, c: [m.nanstd(x, axis=(0, 1)), m.nanvar(x + 1, axis=2)],
    "extremes": lambda m, x, c: [m.nanmax(x, 1), m.nanmin(x * 3, (0, 1)), (x > 0.5).any(2)],
    "sum of a product": lambda m, x, c: m.nansum(x * c, axis=(1, 2)),
    "turned again": lambda m, x, c: (x.transpose(1, 0, 2) + 1)[:, ::2].T * 3,
    "dropped": lambda m, x, c: (x[:, 2] + 1).T.sum(1),
    "new": lambda m, x, c: (x[:, None] + x[:, :, None]).max(0)[..., :3],
    "other shape": lambda m, x, c: (x + 1).reshape(-1, 10) * 2,
    "others": lambda m, x, c: [m.sort(x, 1), m.cumsum(x, 0), m.median(x, 2), m.argmax(x, axis=1)],
    "stacked": lambda m, x, c: m.stack([x, x * 2], axis=1) + m.block([x, c])[:, None, :, :20],
    "joined": lambda m, x, c: m.concatenate([x, c, x * 2], axis=1).sum(0),
}


BY_KERNELS = {"one", "stretched", "with C order", "sum of a product", "turned again", "new"}


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
@pytest.mark.parametrize(("kernels", "name"), [
    *[("numpy", name) for name in OPERATIONS], *[("native", name) for name in sorted(BY_KERNELS)],
])  # fmt: skip
def test_any_order_gives_numpys_values(name, kernels, order):
    a = np.ascontiguousarray(DATA.transpose(order)).transpose(np.argsort(order))
    x, c = la.from_array(a, chunks=(17, 9, 20)), la.from_array(DATA, chunks=(17, 9, 20))
    right = OPERATIONS[name](np, a, DATA)
    with lazyflow.config.set(kernels=kernels):
        for each in (x, x.persist(scheduler="sync"), (x * 1).persist(scheduler="sync")):
            made = OPERATIONS[name](la, each, c)
            if isinstance(made, list):
                check_nodes(optimize([one.expr for one in made]))
                found, wanted = lazyflow.compute(*made), right
            else:
                found, wanted = [made.compute()], [right]
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13, strict=True)


def test_a_result_lies_in_memory_as_numpys_does():
    a = np.asfortranarray(DATA[..., 0])
    x = la.from_array(a, chunks=7)
    for made, right in (
        (x, a), (x + 1, a + 1), (x.T * 2, a.T * 2), (la.from_array(a.T, chunks=7).T, a),
        (x.persist(), a), (x[::-1] * 2, a[::-1] * 2), (la.concatenate([x, x]), np.append(a, a, 0)),
        (la.block([[x, x], [x, x]]), np.block([[a, a], [a, a]])),
    ):
        found = made.compute()
        same_values(found, right)
        assert found.flags.f_contiguous == (not right.flags.c_contiguous)
        assert found.flags.writeable
        assert not np.shares_memory(found, a)


def test_sums_over_rows_in_fortran_order_are_those_over_columns_in_c_order():
    a = RNG.random((300, 200))
    turned = la.from_array(np.asfortranarray(a), chunks=90)
    own = la.from_array(np.ascontiguousarray(a.T), chunks=90)
    for one, other in ((turned.sum(1), own.sum(0)), (turned.std(0), own.std(1))):
        np.testing.assert_array_equal(one.compute(), other.compute(), strict=True)
    kept, rows = turned.persist(), own.persist()
    for scheduler in ("threads", "sync"):
        np.testing.assert_array_equal(
            kept.mean(1).compute(scheduler=scheduler), rows.mean(0).compute(), strict=True
        )


def test_what_lies_in_fortran_order_is_read_as_it_lies():
    a = np.asfortranarray(RNG.random((300, 200)))
    x = la.from_array(a, chunks=(100, 200))
    words = "it is computed as its inputs lie in memory, with the axes 1, 0"
    assert words in la.report(x * 2)
    for made in (x * 2, x.sum(1), x.sum(0), (x - x.mean(0)) / x.std(0), x.persist() + 1):
        fused = [node for node in below(optimize([made.expr])) if isinstance(node, Fused)]
        assert fused
        assert any(each.shape == (200, 300) for node in fused for each in node.inputs), made


A = np.arange(24.0).reshape(2, 3, 4)

#: Arrays whose blocks lie in another order than their axes, or not.
ORDERS = {
    "transposed": lambda m, x: x.T,
    "computed and transposed": lambda m, x: (x + 1).T,
    "axes moved": lambda m, x: m.moveaxis(x * 2, 0, 2),
    "cut and turned": lambda m, x: (x.T + 1)[1:, :, ::-1],
    "a view": lambda m, x: x.T.reshape(-1),
    "repeated": lambda m, x: m.broadcast_to(x.T[0], (5, 3, 2)),
    "chosen": lambda m, x: x.T[x.T > 3],
    "as it is": lambda m, x: x + 1,
}


def given(x, *others):
    while isinstance(x, list | dict):
        x = x[0]
    return np.array(x)


class Receiver:
    def take(self, x):
        return given(x)


#: Ways in which a call gets an array.
GIVEN = {
    "an argument": lambda x: delayed(given)(x).compute(),
    "a keyword": lambda x: delayed(given)(x=x).compute(),
    "in a list": lambda x: delayed(given)([x]).compute(),
    "in a dict": lambda x: delayed(given)({0: x}).compute(),
    "beside what reads it": lambda x: delayed(given)(x, x.sum()).compute(),
    "beside itself": lambda x: lazyflow.compute(delayed(given)(x), x)[0],
    "kept": lambda x: delayed(given)(x.persist()).compute(),
    "made lazy": lambda x: delayed(x).compute(),
    "submitted": lambda x: lazyflow.submit(given, x).result(),
    "sent to an actor": lambda x: lazyflow.actor(Receiver)().take(x).result(),
}


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
@pytest.mark.parametrize("way", GIVEN)
def test_calls_get_the_array_however_its_blocks_lie(way, scheduler):
    with lazyflow.config.set(scheduler=scheduler):
        for order, chunks in ((np.ascontiguousarray, 1), (np.asfortranarray, (2, 2, 3))):
            x = la.from_array(order(A), chunks=chunks)
            for name, make in ORDERS.items():
                found, want = GIVEN[way](make(la, x)), make(np, A)
                assert found.shape == want.shape, name
                assert np.array_equal(found, want), name
