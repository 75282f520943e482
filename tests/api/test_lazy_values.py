"""Identity, text, evaluation and depth of lazy values."""

import asyncio
import copy
import functools
import inspect
import operator
import sys
import threading
import types
import typing

import numpy as np
import pytest

import lazyflow
from lazyflow import Delayed, compute, config, delayed, persist, tree_reduce
from lazyflow.schedulers.remote.calls import is_quick


def inc(x):
    """Add one."""
    return x + 1


def everything(*args, **kwargs):
    return args, kwargs


def value_of(x):
    return compute(x, scheduler="sync")[0]


# -- identity and text ----------------------------------------------------------------------


def test_hash_by_identity():
    x, y = delayed(1), delayed(1)
    assert {x: "x", y: "y"}[x] == "x"
    assert len({x, y, x}) == 2
    assert x in [x]


def test_copies_are_the_same_task():
    x = delayed(inc)(1)
    assert copy.copy(x) is x
    assert copy.deepcopy([x, [x]])[1][0] is x
    f = delayed(inc)
    assert copy.deepcopy(f) is copy.copy(f) is f


def test_repr():
    f = delayed(inc)
    x = f(1)
    assert repr(f) == "<delayed function inc>"
    assert repr(x) == str(x) == f"{x}" == "<Delayed inc(1)>"
    assert repr(f(x)) == "<Delayed inc(<inc>)>"
    assert repr(delayed(7)) == "<Delayed 7>"
    assert repr(delayed(7, name="seven")) == "<Delayed seven>"
    assert repr(delayed(everything)([1, x], np.zeros((2, 3)), k="v")) == (
        "<Delayed everything(list of 2, ndarray(2, 3) float64, k='v')>"
    )
    assert repr(delayed(inc, name="label")(1)) == "<Delayed label(1)>"
    assert repr(f(1, dask_key_name="key")) == "<Delayed key(1)>"
    assert repr(delayed(functools.partial(inc))(1)) == "<Delayed inc(1)>"
    assert repr(delayed("x").real.imag) == "<Delayed .imag(<.real>)>"
    assert repr(x + 1) == "<Delayed add(<inc>, 1)>"
    a, _ = delayed(divmod, nout=2)(7, 2)
    assert repr(a) == "<Delayed divmod[0](<divmod>)>"
    assert len(repr(delayed(everything)(*range(1000), "x" * 1000))) < 200


def test_asking_for_the_key_does_not_change_what_is_shown():
    x = delayed(7)
    before = repr(x), repr(delayed(inc)(x))
    x.key
    assert (repr(x), repr(delayed(inc)(x))) == before == ("<Delayed 7>", "<Delayed inc(<value>)>")


def test_repr_of_persisted_values():
    (x,) = persist(delayed(inc)(1), scheduler="sync")
    assert repr(x) == "<Delayed inc: finished>"


class Hostile:
    def __repr__(self):
        raise RuntimeError("no repr")

    @property
    def __class__(self):
        raise RuntimeError("no class")

    def __getattr__(self, name):
        raise RuntimeError("no attributes")


def test_repr_of_hostile_arguments():
    assert repr(delayed(inc)(Hostile())).startswith("<Delayed inc(")
    assert "inc" in delayed(inc)([Hostile(), delayed(1)])._repr_html_()


def test_html_is_escaped_and_says_where():
    def tricky(x):
        return x

    tricky.__name__ = "<script>alert(1)</script>"
    with config.set(show_values="scalars"):
        html = delayed(tricky)("<b>&")._repr_html_()
    line = inspect.currentframe().f_lineno - 1
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "&lt;b&gt;&amp;" in html
    assert f"test_lazy_values.py:{line}" in html


def test_every_way_to_make_a_task_notes_the_users_line():
    f, x, obj = delayed(inc), delayed(lambda: (1, 2), nout=2)(), delayed("a")
    bound = obj.upper

    def here():
        return inspect.currentframe().f_back.f_lineno

    made = [
        (here(), f(1)), (here(), f(x)), (here(), f([x])), (here(), f(1, x)), (here(), f(x=1)),
        (here(), f(1, dask_key_name="k")), (here(), x + 1), (here(), 1 + x), (here(), x + x),
        (here(), -x), (here(), x == 1), (here(), x[0]), (here(), x.real), (here(), obj.upper()),
        (here(), bound()), (here(), x(1)), (here(), divmod(x, 2)), (here(), divmod(2, x)),
        (here(), round(x)), (here(), pow(x, 2, 3)), (here(), next(iter(x))), (here(), x // 2),
        (here(), delayed(5)), (here(), delayed([x])), (here(), delayed([5])),
        (here(), persist(f(2), scheduler="sync")[0]), (here(), delayed(nout=2)(inc)(1)),
        (here(), tree_reduce(max, [x, 2, 3, 4, 5], split_every=2)),
    ]  # fmt: skip
    for line, task in made:
        where = f"{__file__}:{line} in test_every_way_to_make_a_task_notes_the_users_line"
        assert where in task._repr_html_(), task


def test_metadata_of_the_function():
    @delayed
    def f(a, *, b: int = 3) -> int:
        """Say something."""

    assert f.__doc__ == "Say something."
    assert f.__name__ == "f"
    assert f.__qualname__.endswith("<locals>.f")
    assert f.__module__ == __name__
    assert f.__defaults__ is None
    assert f.__annotations__ == {"b": int, "return": int}
    assert str(inspect.signature(f)) == "(a, *, b: int = 3) -> int"
    assert inspect.unwrap(f) is f.__wrapped__
    assert typing.get_type_hints(f) == {"b": int, "return": int}
    assert callable(f)
    partial = functools.partial(inc)
    assert delayed(partial).__doc__ == partial.__doc__

    @functools.wraps(f)
    def g(): ...

    assert g.__name__ == "f"
    with pytest.raises(AttributeError):
        _ = f(1).__wrapped__


def test_a_delayed_function_is_a_value_too():
    f = delayed(inc)
    assert f.compute() is inc
    assert value_of(delayed(lambda func, x: func(x))(f, 1)) == 2
    assert value_of(delayed(functools.reduce)(delayed(operator.add), [1, 2, 3])) == 6


def test_private_names_are_not_looked_up_lazily():
    x = delayed(1)
    assert not hasattr(x, "_private")
    with pytest.raises(AttributeError, match=r"write delayed\(getattr\)\(x, '_private'\)"):
        x._private
    assert not hasattr(x, "__len_hint__")


# -- evaluation -----------------------------------------------------------------------------


def test_key_is_text_and_stays():
    x = delayed(inc)(1)
    assert isinstance(x.key, str)
    assert x.key == x.key
    assert x.key.startswith("inc-")
    assert x.key != delayed(inc)(1).key


def test_compute_and_persist_of_one():
    x = delayed(inc)(1)
    assert x.compute() == 2
    assert x.compute(scheduler="sync", num_workers=1, optimize_graph=False) == 2
    with pytest.raises(TypeError, match="unexpected keyword 'schedular'; did you mean 'scheduler'"):
        x.compute(schedular="sync")
    p = x.persist()
    assert type(p) is Delayed
    assert (p + 1).compute() == 3


def test_visualize_of_one(tmp_path):
    x = delayed(inc)(delayed(inc)(1))
    assert "<svg" in x.visualize()._repr_svg_()
    x.visualize(str(tmp_path / "graph.svg"))
    assert "<svg" in (tmp_path / "graph.svg").read_text()


def test_await_gives_the_value():
    async def main():
        x = delayed(inc)(1)
        (p,) = persist(delayed(inc)(2))
        return await x, await p, await delayed(5), await asyncio.gather(x + 1, x + 2, x + 3)

    assert asyncio.run(main()) == (2, 3, 5, [3, 4, 5])


def test_await_many_at_once_runs_them_together():
    barrier = threading.Barrier(3, timeout=30)

    async def main():
        return await asyncio.gather(*[_later(delayed(barrier.wait)()) for _ in range(3)])

    async def _later(x):
        return await x

    with lazyflow.config.set(num_workers=3):
        assert sorted(asyncio.run(main())) == [0, 1, 2]


def test_await_raises_the_tasks_error():
    async def main():
        await delayed(operator.truediv)(1, 0)

    with pytest.raises(ZeroDivisionError) as caught:
        asyncio.run(main())
    assert "in lazyflow task truediv(1, 0)" in caught.value.__notes__[0]


@pytest.mark.parametrize("name", ["asyncio", "concurrent.futures", "scipy.sparse", "numpy"])
def test_a_module_that_another_thread_is_importing(name, monkeypatch):
    """It is in sys.modules before it has its names."""

    class Thing:  # a new one: what kind it is of has not been looked up
        pass

    half = types.ModuleType(name)
    half.ndarray = np.ndarray  # of NumPy's, the first that is needed
    monkeypatch.setitem(sys.modules, name, half)
    with pytest.raises(ZeroDivisionError):
        compute(delayed(operator.truediv)(1, 0), scheduler="threads")
    (held,) = persist(delayed(Thing)(), scheduler="threads")
    assert type(held.compute()) is Thing
    assert compute(delayed(type, pure=True)(Thing()), scheduler="sync") == (Thing,)
    assert not is_quick([Thing()], 1000)


def test_cancelling_an_await_gives_the_work_up():
    started, release, ran = threading.Event(), threading.Event(), []

    def first():
        started.set()
        release.wait(30)

    async def main():
        x = delayed(lambda _: ran.append(1))(delayed(first)())
        waiting = asyncio.ensure_future(_value(x))
        await asyncio.get_running_loop().run_in_executor(None, started.wait, 30)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        release.set()
        return await delayed(inc)(1)

    async def _value(x):
        return await x

    assert asyncio.run(main()) == 2
    assert ran == []


# -- depth ----------------------------------------------------------------------------------

DEPTH = 100_000


def test_a_deep_chain_is_built_shown_computed_and_dropped():
    f = delayed(inc)
    x = f(0)
    for _ in range(DEPTH - 1):
        x = f(x)
    assert repr(x) == "<Delayed inc(<inc>)>"
    assert copy.deepcopy(x) is x
    assert value_of(x) == DEPTH
    assert f"{DEPTH:,} × inc" in x.visualize()._repr_svg_()
    del x


def test_deep_chains_of_other_kinds():
    x = y = z = delayed(1)
    pure = delayed(inc, pure=True)
    for _ in range(2_000):
        x, y, z = x + 1, delayed([y])[0], pure(z)
    assert compute(x, y, z) == (2_001, 1, 2_001)
    assert z.key.startswith("inc-")
