"""What an actor is given is its own: it may edit and keep it, and nobody else sees that."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from actor_examples import Holder, Keeper, add_one, with_address

import lazyflow
from lazyflow import compute, delayed, persist, put, submit

SIZES = [3, 300_000]  # numbers: small ones go in the message, large ones in shared memory

FORMS: dict[str, Callable[[int], Any]] = {
    "array": np.zeros,
    "in containers": lambda n: {"a": [np.zeros(n)], "b": (np.zeros(n), [np.zeros(n)])},
    "frame": lambda n: pd.DataFrame({"a": np.zeros(n), "b": np.zeros(n)}),
    "sparse": lambda n: scipy.sparse.csr_matrix(np.ones((1, n))),
    "read-only": lambda n: np.broadcast_to(np.zeros(n), (n,)),
}

WAYS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "put": put,
    "submitted": lambda x: submit(lambda y: y, x),
    "persisted": lambda x: persist(delayed(lambda y: y)(x))[0],
    "lazy": lambda x: delayed(lambda y: y)(x),
}


def shown(x: Any) -> Any:
    """Return what is compared: lists of all numbers."""
    if isinstance(x, pd.DataFrame):
        return x.to_numpy().ravel()[:3].tolist()
    if isinstance(x, dict):
        return [shown(each) for each in x.values()]
    if isinstance(x, list | tuple):
        return [shown(each) for each in x]
    return np.ravel(getattr(x, "toarray", lambda: x)())[:3].tolist()


def value_of(x: Any) -> Any:
    return compute(x)[0]


@pytest.mark.filterwarnings("ignore:.*was copied for the workers")
@pytest.mark.parametrize("size", SIZES)
def test_arguments_may_be_edited(scheduler: str, size: int) -> None:
    actor = Keeper()
    for way, form in product(WAYS, FORMS):
        x = FORMS[form](size)
        given = WAYS[way](x)
        expected = shown(value_of(given))
        one_more = shown_after_edit(form, size)
        assert shown(actor.edit(given).result()) == one_more, (way, form)
        actor.keep(given)
        assert shown(actor.edit().result()) == one_more, (way, form)
        assert shown(value_of(given)) == expected, (way, form)
        assert shown(x) == expected, (way, form)


def shown_after_edit(form: str, size: int) -> Any:
    x = np.zeros(size) if form == "read-only" else FORMS[form](size)
    add_one(x)
    return shown(x)


def test_arguments_of_constructors_may_be_edited(scheduler: str) -> None:
    for way in ("itself", "submitted", "lazy"):
        made = {f"{form} {n}": FORMS[form](n) for form, n in product(FORMS, SIZES)}
        actor = Keeper(WAYS[way](made))
        assert shown(actor.edit().result()) == [
            shown_after_edit(form, n) for form, n in product(FORMS, SIZES)
        ]
        assert shown(made) == [shown(FORMS[form](n)) for form, n in product(FORMS, SIZES)]


def test_the_object_that_comes_by_two_ways_is_copied_for_each(scheduler: str) -> None:
    x = np.zeros(3)
    first, second = Keeper([x, x]), Keeper({"x": x})
    assert [first.edit().result()[0].tolist(), second.edit().result()["x"].tolist()] in (
        [[1.0] * 3, [1.0] * 3], [[2.0] * 3, [1.0] * 3],  # one array twice, as serially
    )
    assert x.tolist() == [0.0] * 3


def test_a_server_of_arrays_takes_steps_in_place(scheduler: str) -> None:
    @lazyflow.actor
    class Server:
        def __init__(self, w: Any) -> None:
            self.w = w

        def step(self, *gradients: Any) -> Any:
            self.w -= 0.5 * sum(gradients)
            return self.w

    w = np.full(4, 4.0)
    server = Server(w)
    stepped = server.step(delayed(np.ones)(4), submit(np.ones, 4))
    assert delayed(list)(stepped).compute() == [3.0] * 4
    assert server.step(np.ones(4)).result().tolist() == [2.5] * 4
    assert stepped.result().tolist() == [3.0] * 4
    assert w.tolist() == [4.0] * 4


@pytest.mark.parametrize("scheduler", ["processes", "distributed"], indirect=True)
def test_arrays_in_objects_may_be_edited_where_they_were_sent(scheduler: str) -> None:
    for size in SIZES:
        holder = Holder(size)
        assert Keeper(holder).edit().result().array[0] == 1
        assert Keeper().edit(put(holder)).result().array[0] == 1
        assert holder.array[0] == 0


@pytest.mark.parametrize("scheduler", ["sync"], indirect=True)  # threads may hold it for a moment
def test_what_nothing_else_holds_is_not_copied(scheduler: str) -> None:
    keeper, held = Keeper(), submit(with_address, 100)
    before = held.result()[0]
    assert keeper.is_copy(held).result()
    assert held.result()[0] == before
    assert not keeper.is_copy(delayed(with_address)(100)).result()


def test_nobody_is_told_of_mutates(scheduler: str) -> None:
    with pytest.raises(ValueError, match="read-only") as caught:
        Keeper(np.zeros(3)).show_read_only().result()
    assert "mutates=True" not in "".join(caught.value.__notes__)


@pytest.mark.parametrize("size", SIZES)
def test_held_values_can_be_read_without_copies(scheduler: str, size: int) -> None:
    """With ``mutates=False``, in which no actor can edit them; literals are its own."""
    @lazyflow.actor(mutates=False)
    class Reader:
        def __init__(self, x: Any = None) -> None:
            self.x = x

        def tries(self, x: Any) -> Any:
            x["a"][0][0] += 1
            return x["a"][0][0]

        def has_own(self, x: Any) -> bool:
            base = x
            while isinstance(base.base, np.ndarray):
                base = base.base
            return bool(base.flags.owndata and base.flags.writeable)

    given = {"a": [np.zeros(size)]}
    for way in ("put", "submitted", "persisted", "lazy"):
        held = WAYS[way](given)
        if scheduler in ("sync", "threads") or size > 1000:
            with pytest.raises(ValueError, match="read-only"):
                Reader(held).tries(held).result()
        assert shown(value_of(held)) == [[[0.0] * 3]]
    assert Reader().tries(given).result() == 1.0
    assert given["a"][0][0] == 0.0
    if scheduler == "processes" and size > 1000:
        assert not Reader().has_own(put(np.zeros(size))).result()
    with pytest.raises(TypeError, match=r"mutates must be True or False; got 1"):
        lazyflow.actor(list, mutates=1)
