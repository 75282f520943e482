"""Calls, errors and handles of actors, the same on every scheduler."""

import copy
import gc
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from actor_examples import Counter, Plain, Weights, after, deep_sum

import lazyflow
from lazyflow import (
    Future,
    RemoteTaskError,
    SerializationError,
    actor,
    as_completed,
    compute,
    config,
    delayed,
    persist,
    put,
    submit,
    wait,
)
from lazyflow.schedulers.registry import info
from lazyflow.testing.signals import Gate

PATIENCE = 20.0  # seconds

# -- calls ----------------------------------------------------------------------------------


def test_calls_share_a_state_and_give_futures(scheduler: str) -> None:
    counter = Counter(10)
    first = counter.add(1)
    assert isinstance(first, Future)
    assert [counter.add(k).result() for k in (2, 3)] == [13, 16]
    assert first.result() == 11
    assert Counter().add().result() == 1  # another one


def test_a_class_can_be_made_an_actor_where_it_is_used(scheduler: str) -> None:
    assert actor(Plain)(5).add(1).result() == 6
    assert actor(Plain, name=None)(start=2).add(k=1).result() == 3
    assert Plain(1).add(1) == 2  # the class is as it was

    class Local:
        def twice(self, x: int) -> int:
            return 2 * x

    assert actor(Local)().twice(4).result() == 8


def test_calls_keep_order(scheduler: str) -> None:
    counter = Counter()
    futures = [counter.note(i) for i in range(300)]
    assert counter.notes().result() == list(range(300))
    assert wait(futures)[1] == []


def test_calls_keep_order_when_an_argument_is_not_ready(scheduled: str) -> None:
    gate = Gate()
    counter, other = Counter(), Counter()
    assert [counter.add(0).result(), other.add(0).result()] == [0, 0]  # both are up
    late = submit(after, gate, "late")
    counter.note(late)
    counter.note("early")
    notes = counter.notes()
    assert other.add(1).result() == 1  # so what could go has gone
    assert not notes.done()
    gate.open()
    assert notes.result() == ["late", "early"]


def test_lazy_values_and_futures_are_arguments_at_any_depth(scheduler: str) -> None:
    counter = Counter()
    one = counter.add(1)
    (two,) = persist(delayed(abs)(-2))
    three, four = submit(abs, -3), put(4)
    five = delayed(abs)(-5)
    assert counter.total(one, [two, {"a": (three,)}], k=[four, five]).result() == 15
    assert counter.total(one, one, [one]).result() == 3


def test_results_are_arguments_anywhere(scheduler: str) -> None:
    counter, other = Counter(), Counter()
    x = counter.add(2)
    assert delayed(deep_sum)([x, {"a": x}]).compute() == 4
    assert compute(x, [delayed(abs)(x)]) == (2, [2])
    assert submit(deep_sum, [x, 1]).result() == 3
    assert other.add(x).result() == 2
    assert persist(delayed(abs)(x))[0].compute() == 2
    done, pending = wait([x, counter.add(1)])
    assert len(done) == 2
    assert not pending
    assert sorted(f.result() for f in as_completed([counter.add(1), counter.add(1)])) == [4, 5]


def test_what_waits_for_a_call_runs_after_it(scheduled: str) -> None:
    gate = Gate()
    counter = Counter()
    passed = counter.wait_at(gate)
    (joined,) = persist(delayed("-".join)([passed, "on"]))
    longer = submit(len, joined)
    assert not passed.done()
    gate.open()
    assert joined.compute() == "passed-on"
    assert longer.result() == 9


def test_large_values_go_both_ways(scheduler: str) -> None:
    weights = Weights(200_000)
    g = delayed(np.ones)(200_000)
    first = weights.step(g, put(np.ones(200_000)))
    total = delayed(np.sum)(first)
    assert total.compute() == 400_000
    assert weights.step(first).result()[0] == 4
    assert submit(np.sum, first).result() == 400_000
    mine = first.result()
    mine[0] = 7  # the caller's own
    assert first.result()[0] == 2


def test_large_values_are_in_shared_memory_once(processes: str) -> None:
    size = 1_000_000
    weights = Weights(size)
    weights.get().result()
    compute(delayed(abs)(-1))
    before = info()["processes"]["shared_bytes"]
    late = weights.step(delayed(np.ones)(size))
    (total,) = persist(delayed(np.sum)(late))  # linked while the call is on its way
    assert total.compute() == size
    (again,) = persist(delayed(np.sum)(late))
    assert again.compute() == size
    assert info()["processes"]["shared_bytes"] - before < 2.5 * 8 * size  # what came, what went


def test_a_class_can_derive_from_an_actor_class() -> None:
    class Twice(Counter):  # type: ignore[misc, valid-type]
        def add(self, k: int = 1) -> int:
            return int(super().add(2 * k))

    assert Twice(1).add(1) == 3
    assert actor(Twice, scheduler="sync")(1).add(2).result() == 5


def test_an_actor_class_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Counter)) is Counter
    other = pickle.loads(pickle.dumps(Counter.options(restarts=3)))
    assert (other.__wrapped__, other._settings.restarts) == (Counter.__wrapped__, 3)
    assert copy.copy(Counter) is Counter


def test_neither_side_sees_what_the_other_does_later(scheduler: str) -> None:
    weights = Weights(3)
    before = weights.get()
    inside = delayed(deep_sum)([before])
    weights.step(np.ones(3))
    assert before.result().tolist() == [0, 0, 0]
    assert list(inside.compute()) == [0, 0, 0]
    given = np.ones(3)
    weights.set(given)
    given[:] = 9
    assert weights.get().result().tolist() == [1, 1, 1]
    state = weights.state()
    assert state.result()["w"].tolist() == [1, 1, 1]


def test_a_lazy_result_is_computed_and_a_generator_taken(scheduler: str) -> None:
    counter = Counter()
    assert counter.lazily(3).result() == 3
    assert delayed(list)(counter.count(3)).compute() == [0, 1, 2]


def test_a_call_has_a_workers_state_as_a_task_has(scheduler: str) -> None:
    counter = Counter()
    for k in (1, 2):  # it is reset after each
        assert counter.in_state(STATE, k).result() == k
    assert counter.fail_in_state(STATE).exception() is not None
    assert counter.in_state(STATE, 3).result() == 3


STATE = lazyflow.worker_state(dict, reset=dict.clear)


def test_callbacks_and_waiting(scheduled: str) -> None:
    gate, seen = Gate(), threading.Event()
    counter = Counter()
    held = counter.wait_at(gate)
    held.add_done_callback(lambda f: seen.set())
    with pytest.raises(lazyflow.TaskTimeout, match="Counter.wait_at"):
        held.result(timeout=0.01)
    gate.open()
    assert held.result() == "passed"
    assert seen.wait(PATIENCE)


# -- errors ---------------------------------------------------------------------------------


def test_an_error_has_its_type_and_a_note_and_fails_one_call(scheduler: str) -> None:
    counter = Counter()
    failed = counter.fail()
    later = counter.add(1)
    with pytest.raises(ValueError, match="no") as caught:
        failed.result()
    (note,) = caught.value.__notes__
    assert "Counter.fail(), made at" in note
    assert "test_actors.py" in note
    assert later.result() == 101
    with pytest.raises(RemoteTaskError, match="SystemExit"):
        counter.leave().result()
    assert counter.add(1).result() == 102


def test_what_failed_fails_what_needs_it(scheduler: str) -> None:
    counter, other = Counter(), Counter()
    failed = counter.fail()
    for future in (other.add(failed), submit(abs, failed), other.add(delayed(bad)(1))):
        with pytest.raises(ValueError, match="no"):
            future.result()
    assert other.add(1).result() == 1


def bad(x: Any) -> Any:
    raise ValueError("no")


def test_a_constructor_that_fails_fails_all_calls(scheduler: str) -> None:
    weights = Weights(3, broken=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="can't be made") as caught:
            weights.get().result()
    assert "Weights.__init__(3, broken=True), made at" in caught.value.__notes__[0]
    assert "test_actors.py" in caught.value.__notes__[0]


def test_typos_are_told_of_at_once(scheduler: str) -> None:
    counter = Counter()
    with pytest.raises(AttributeError, match=r"no method 'ad'; did you mean 'add'\?"):
        counter.ad(1)
    with pytest.raises(AttributeError, match="Write a method that returns it"):
        counter.size
    with pytest.raises(AttributeError, match="Write a method that returns it"):
        counter.limit
    with pytest.raises(AttributeError, match="Write a method that sets it"):
        counter.n = 3
    assert "add" in dir(counter)
    assert counter._hidden().result() == 7
    assert "Counter" in repr(counter)


def test_options_are_checked() -> None:
    with pytest.raises(TypeError, match=r"'restart'; did you mean 'restarts'\?"):
        actor(Plain, restart=1)
    with pytest.raises(TypeError, match="it is called restarts here"):
        actor(max_restarts=1)
    with pytest.raises(ValueError, match="max_concurrency must be a whole number"):
        actor(Plain, max_concurrency=0)
    with pytest.raises(ValueError, match="pass name= as well"):
        actor(Plain, get_if_exists=True)
    with pytest.raises(TypeError, match="needs a method 'get_it'"):
        actor(Plain, checkpoint="get_it")
    with pytest.raises(TypeError, match="takes a class"):
        actor(len)
    with pytest.raises(ValueError, match="can't run actors"):
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as pool:
            actor(Plain, scheduler=pool)()


# -- handles --------------------------------------------------------------------------------


def test_a_handle_is_an_argument_where_memory_is_shared() -> None:
    with config.set(scheduler="threads"):
        counter = Counter()
        assert delayed(add_by)(counter, 3).compute() == 3
        assert copy.copy(counter).add(1).result() == 4
        assert copy.deepcopy([counter])[0] == counter


def add_by(handle: Any, k: int) -> Any:
    return handle.add(k).result()


def test_what_can_not_be_sent_elsewhere(remote: str) -> None:
    counter = Counter()
    with pytest.raises(SerializationError):
        counter.note(threading.Lock()).result()
    with pytest.raises(SerializationError):
        counter.unpicklable().result()
    assert counter.add(1).result() == 1


def test_names(scheduler: str) -> None:
    named = Counter.options(name="one")
    first = named(5)
    assert first.add(1).result() == 6
    with pytest.raises(ValueError, match="an actor named 'one' already"):
        named()
    again = named.options(get_if_exists=True)(70)
    assert again.add(1).result() == 7
    with pytest.raises(ValueError, match="is a Counter, not a Plain"):
        actor(Plain, name="one", get_if_exists=True)()
    del first, again
    gc.collect()
    assert named(1).add(1).result() == 2


def test_get_actor_returns_a_handle_on_the_actor_of_a_name(scheduler: str) -> None:
    first = Counter.options(name="found")(5)
    found = lazyflow.get_actor("found")
    assert found == first
    assert [first.add(1).result(), found.add(1).result()] == [6, 7]
    with pytest.raises(ValueError, match=r"no living actor named 'fuond'.*did you mean 'found'\?"):
        lazyflow.get_actor("fuond")
    del first
    gc.collect()
    assert found.add(1).result() == 8  # a handle that was got keeps it alive
    del found
    gc.collect()
    with pytest.raises(ValueError, match="no living actor named 'found'"):
        lazyflow.get_actor("found")


def test_get_actor_returns_none_that_has_died(separate: str) -> None:
    counter = Counter.options(name="gone")()
    with pytest.raises(lazyflow.WorkerDied):
        counter.die("SIGKILL").result()
    with pytest.raises(ValueError, match="no living actor named 'gone'"):
        lazyflow.get_actor("gone")
