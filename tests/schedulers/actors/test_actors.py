"""Actors, the same on every scheduler; and what ends them."""

import asyncio
import copy
import gc
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from actor_examples import Async, Counter, Plain, Weights, deep_sum
from engine_schedulers import local_client
from fault_tools import until

import lazyflow
from lazyflow import (
    ActorPool,
    Cancelled,
    Future,
    RemoteTaskError,
    SerializationError,
    WorkerDied,
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
from lazyflow.testing.signals import Gate, Level, Tally

RAY = pytest.param("ray", marks=[
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning"),
])
REMOTE = ["processes", "distributed", RAY]
CONCURRENT = ["threads", *REMOTE]
SCHEDULERS = ["sync", *CONCURRENT]
PATIENCE = 20.0  # seconds
ENDS = {"exit": "exit code 3", "SIGKILL": "SIGKILL", "SIGSEGV": "SIGSEGV"}


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with local_client() as client:
        yield client


@pytest.fixture(scope="module")
def ray() -> Iterator[None]:
    """Let the workers of Ray find the modules of tests, as a program's modules have to be found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
        yield
        lazyflow.shutdown()


def scheduling(request: pytest.FixtureRequest, name: str) -> Iterator[str]:
    if name in ("distributed", "ray"):
        request.getfixturevalue({"distributed": "client"}.get(name, name))
    with config.set(scheduler=name, num_workers=2):
        yield name


@pytest.fixture(params=SCHEDULERS)
def scheduler(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from scheduling(request, request.param)


@pytest.fixture(params=CONCURRENT)
def scheduled(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from scheduling(request, request.param)


@pytest.fixture(params=REMOTE)
def remote(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from scheduling(request, request.param)


@pytest.fixture(params=["processes", RAY])
def separate(request: pytest.FixtureRequest) -> Iterator[str]:
    """Schedulers where an actor has a process of its own."""
    yield from scheduling(request, request.param)


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from scheduling(request, "distributed")


@pytest.fixture
def processes(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from scheduling(request, "processes")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


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


def after(gate: Gate, value: Any) -> Any:
    gate.wait()
    return value


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
    with pytest.raises(AttributeError, match="write a method that returns it"):
        counter.size
    with pytest.raises(AttributeError, match="write a method that returns it"):
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
    with pytest.raises(ValueError, match="no actors"):
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


def test_a_handle_can_not_be_sent_elsewhere(remote: str) -> None:
    counter = Counter()
    with pytest.raises(SerializationError, match="pass the futures that its methods return"):
        delayed(add_by)(counter, 3).compute()
    with pytest.raises(SerializationError, match="handle on the actor Counter"):
        pickle.dumps(counter)
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


# -- several calls at once ------------------------------------------------------------------


def test_async_methods_wait_for_each_other(scheduled: str) -> None:
    waiting = Async()
    futures = [waiting.enter(i) for i in range(20)]
    waiting.open()
    assert [f.result() for f in futures] == list(range(20))
    assert waiting.seen().result() == (list(range(20)), 20)
    with pytest.raises(ValueError, match="no"):
        waiting.fail().result()
    assert waiting.plain(put(3)).result() == 3


def test_async_methods_run_to_their_end_on_sync() -> None:
    waiting = Async.options(scheduler="sync")()
    assert waiting.plain(3).result() == 3
    with pytest.raises(ValueError, match="no"):
        waiting.fail().result()


def test_as_many_calls_at_once_as_allowed(scheduled: str) -> None:
    level, gate = Level(), Gate()
    room = actor(Room, max_concurrency=3)(level, gate)
    futures = [room.stay() for _ in range(9)]
    assert level.wait_for(3)
    gate.open()
    wait(futures)
    assert level.most() == 3


class Room:
    def __init__(self, level: Level, gate: Gate) -> None:
        self.level, self.gate = level, gate

    def stay(self) -> None:
        with self.level:
            self.gate.wait()


def test_no_call_begins_before_the_object_is_made(scheduled: str) -> None:
    gate, begun = Gate(), Gate()
    slow = actor(Slow, max_concurrency=3)(gate, begun)
    futures = [slow.get() for _ in range(5)]
    assert begun.wait()
    assert not any(f.done() for f in futures)
    gate.open()
    assert [f.result() for f in futures] == [1] * 5


class Slow:
    def __init__(self, gate: Gate, begun: Gate) -> None:
        begun.open()
        gate.wait()
        self.x = 1

    def get(self) -> int:
        return self.x


def test_many_calls_and_tasks_that_need_them(scheduled: str) -> None:
    counter = Counter()
    for i in range(200):  # a result may come at any step of taking the graph in
        x = counter.total([i, np.ones(1)])
        assert persist(delayed(int)(delayed(sum)(x)))[0].compute() == i + 1


def test_callers_in_many_threads(scheduled: str) -> None:
    counter = Counter()

    def call() -> None:
        for _ in range(50):
            counter.add(1)

    callers = [threading.Thread(target=call) for _ in range(8)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert counter.add(0).result() == 400


def test_one_call_at_a_time_otherwise(scheduled: str) -> None:
    level, gate = Level(), Gate()
    gate.open()
    room = actor(Room)(level, gate)
    wait([room.stay() for _ in range(50)])
    assert level.most() == 1


# -- the end --------------------------------------------------------------------------------


def test_each_actor_has_a_process_that_ends_with_its_handle(processes: str) -> None:
    one, two = Counter(), Counter()
    pids = [one.pid().result(), two.pid().result()]
    assert len({*pids, os.getpid()}) == 3
    pool = {worker["pid"] for worker in info()["processes"]["workers"]}
    assert not pool.intersection(pids)
    assert set(pids) <= {a["pid"] for a in info()["processes"]["actors"]}
    kept = one.add(4)
    del one
    assert until(lambda: not is_alive(pids[0]))
    assert is_alive(pids[1])
    assert kept.result() == 4


def test_no_task_runs_in_an_actors_process(processes: str) -> None:
    counter = Counter()
    big = Weights(100_000)
    pids = {counter.pid().result()}
    parts = [delayed(where)(big.get(), counter.pid(), i) for i in range(40)]
    assert not pids.intersection(compute(*parts))


def where(*_: Any) -> int:
    time.sleep(0.001)
    return os.getpid()


def test_a_thread_ends_with_its_handle() -> None:
    with config.set(scheduler="threads"):
        counter = actor(Plain, name="ends")()
        counter.add().result()
        assert any("lazyflow-Plain 'ends'" in t.name for t in threading.enumerate())
        del counter
        assert until(lambda: not any("Plain 'ends'" in t.name for t in threading.enumerate()))


def test_calls_run_also_when_handle_and_futures_are_dropped(scheduled: str) -> None:
    tally, gate = Tally(), Gate()
    keeper = actor(Keeper)(tally, gate)
    for i in range(5):
        keeper.keep(i)
    del keeper
    gc.collect()
    gate.open()
    assert until(lambda: len(tally) == 5)
    assert tally.items() == [0, 1, 2, 3, 4]


class Keeper:
    def __init__(self, tally: Tally, gate: Gate) -> None:
        self.tally, self.gate = tally, gate

    def keep(self, i: int) -> None:
        self.gate.wait()
        self.tally.add(i)


def test_a_call_can_be_cancelled_before_it_begins(scheduled: str) -> None:
    gate, begun = Gate(), Gate()
    counter = Counter()
    blocked = counter.wait_at(gate, begun)
    assert begun.wait()
    late = counter.add(submit(after, gate, 1))
    assert late.cancel()
    gate.open()
    assert blocked.result() == "passed"
    with pytest.raises(Cancelled):
        late.result()
    assert counter.add(0).result() == 0


def test_a_call_that_was_sent_can_be_cancelled_too(remote: str) -> None:
    gate, begun = Gate(), Gate()
    counter = Counter()
    blocked = counter.wait_at(gate, begun)
    late, last = counter.add(10), counter.add(1)
    assert begun.wait()
    assert late.cancel()
    queued = counter.add(1)
    gate.open()
    assert blocked.result() == "passed"
    assert last.result() in (1, 11)  # as far as the word comes in time
    assert queued.result() == last.result() + 1


def test_a_call_is_running_while_it_runs(scheduled: str) -> None:
    counter, gate, begun = Counter(), Gate(), Gate()
    before = counter.add()
    first, second = counter.wait_at(gate, begun), counter.add()
    assert begun.wait()
    assert before.result() == 1
    assert [f.running() for f in (before, first, second)] == [False, True, False]
    gate.open()
    assert second.result() == 2
    assert not first.running() and not second.running()


def test_calls_are_running_that_run_at_once(scheduled: str) -> None:
    counter = Counter.options(max_concurrency=2)()
    gates = [(Gate(), Gate()) for _ in range(3)]
    calls = [counter.wait_at(*each) for each in gates]
    assert gates[0][1].wait() and gates[1][1].wait()
    assert [f.running() for f in calls] == [True, True, False]
    gates[0][0].open()
    assert calls[0].result() == "passed" and gates[2][1].wait()
    assert [f.running() for f in calls] == [False, True, True]
    for gate, _ in gates[1:]:
        gate.open()
    wait(calls)
    assert not any(f.running() for f in calls)


@pytest.mark.parametrize("how", ENDS)
def test_a_death_fails_the_call_and_all_later_ones(remote: str, how: str) -> None:
    counter = Counter()
    assert counter.add(1).result() == 1
    kept = Weights(50_000).get()
    fatal, queued = counter.die(how), counter.add(1)
    with pytest.raises(WorkerDied) as caught:
        fatal.result()
    text = str(caught.value)
    assert "actor Counter" in text
    assert "Counter.die" in text
    assert ENDS[how] in text or remote != "processes"  # engines do not say how
    for later in (queued, counter.add(1)):
        with pytest.raises(WorkerDied, match=r"Counter.add can't be run.*while it ran Counter.die"):
            later.result()
    assert kept.result().sum() == 0  # others live on
    assert Counter().add(1).result() == 1


def test_results_outlive_their_actor(separate: str) -> None:
    weights = Weights(100_000)
    made = weights.step(np.ones(100_000))
    wait(made)
    os.kill(weights.pid().result(), signal.SIGKILL)
    with pytest.raises(WorkerDied, match="while no call ran"):
        weights.get().result()
    assert delayed(np.sum)(made).compute() == 100_000
    assert made.result()[0] == 1


def test_a_death_while_no_call_runs(remote: str) -> None:
    counter = Counter.options(restarts=1)(5)
    pid = counter.pid().result()
    os.kill(pid, signal.SIGKILL)
    assert counter.add(1).result() == 6  # nobody was to blame
    assert counter.pid().result() != pid


def test_a_restart_begins_with_the_constructor(remote: str) -> None:
    counter = Counter.options(restarts=1)(10)
    counter.add(1)
    fatal = counter.die("exit")
    later = [counter.add(1), counter.add(1)]
    with pytest.raises(WorkerDied, match="started again from its constructor"):
        fatal.result()
    assert [f.result() for f in later] == [11, 12]
    with pytest.raises(WorkerDied, match="not run again"):
        counter.die("exit").result()
    with pytest.raises(WorkerDied, match="1 restarts are used up"):
        counter.add(1).result()


@pytest.mark.parametrize("checkpoint", ["get_state", "functions"])
def test_a_checkpoint_brings_the_state_back(remote: str, checkpoint: Any) -> None:
    if checkpoint == "functions":
        checkpoint = (lambda c: c.n, lambda c, n: c.set_state(n))
    counter = Counter.options(restarts=2, checkpoint=checkpoint)()
    for _ in range(5):
        counter.add()
    with pytest.raises(WorkerDied, match="from its last checkpoint"):
        counter.die("SIGKILL").result()
    assert counter.add().result() == 6
    with pytest.raises(ValueError, match="no"):
        counter.fail().result()  # what it did before it failed counts
    with pytest.raises(WorkerDied):
        counter.die("exit").result()
    assert counter.add().result() == 107


class Noting:
    """Fails with a note in the words of the library, and can't always say its state."""

    def __init__(self) -> None:
        self.n, self.asked = 0, 0
        self.is_broken = False

    def fail(self) -> None:
        self.n += 100
        error = ValueError("no")
        error.add_note("while the actor's checkpoint was taken, after the call")
        raise error

    def get(self) -> tuple[int, int]:
        return self.n, self.asked

    def break_state(self, how: bool | str) -> None:
        self.is_broken = how

    def state(self) -> Any:
        self.asked += 1
        if self.is_broken == "unpicklable":
            return threading.Lock()
        if self.is_broken:
            raise LookupError("no state")
        return self.n

    def load(self, n: int) -> None:
        self.n = n

    def die(self) -> None:
        os._exit(1)


def test_a_users_note_in_the_words_of_the_library_changes_nothing(remote: str) -> None:
    noting = actor(Noting, restarts=1, checkpoint=("state", "load"))()
    with pytest.raises(ValueError, match="no"):
        noting.fail().result()
    with pytest.raises(WorkerDied):
        noting.die().result()
    assert noting.get().result() == (100, 0)


@pytest.mark.parametrize("how", [True, "unpicklable"])
def test_a_state_that_cant_be_had_fails_the_call_and_is_asked_for_once(
    remote: str, how: bool | str
) -> None:
    noting = actor(Noting, restarts=1, checkpoint=("state", "load"))()
    with pytest.raises((LookupError, TypeError)) as caught:
        noting.break_state(how).result()
    assert "while the actor's checkpoint was taken, after the call" in caught.value.__notes__
    noting.break_state(False).result()
    assert noting.get().result() == (0, 2)


def test_a_checkpoint_every_few_calls(remote: str) -> None:
    counter = Counter.options(restarts=1, checkpoint="get_state", checkpoint_every=3)()
    for _ in range(5):
        counter.add()
    with pytest.raises(WorkerDied):
        counter.die("exit").result()
    assert counter.add().result() == 4


def test_a_large_checkpoint_and_constructor_argument(remote: str) -> None:
    made = actor(Shelf, restarts=1, checkpoint=("state", "load"))(put(np.ones(100_000)))
    assert made.scale(3.0).result() == 300_000
    with pytest.raises(WorkerDied):
        made.die().result()
    assert made.scale(2.0).result() == 600_000


class Shelf:
    def __init__(self, x: Any) -> None:
        self.x = x

    def scale(self, k: float) -> float:
        self.x = self.x * k
        return float(self.x.sum())

    def state(self) -> Any:
        return self.x

    def load(self, x: Any) -> None:
        self.x = x

    def die(self) -> None:
        os._exit(1)


def test_restarts_and_checkpoints_change_nothing_elsewhere(scheduler: str) -> None:
    counter = Counter.options(restarts=1, checkpoint="get_state")(1)
    assert counter.add().result() == 2


def test_a_running_call_is_ended_by_force(separate: str) -> None:
    gate, begun = Gate(), Gate()
    counter = Counter.options(restarts=1)()
    blocked = counter.wait_at(gate, begun)
    assert begun.wait()
    assert blocked.cancel(force=True)
    assert counter.add(1).result() == 1


def test_shutdown_ends_actors_and_their_calls(scheduled: str) -> None:
    gate, begun = Gate(), Gate()
    counter = Counter()
    pid = counter.pid().result() if scheduled == "processes" else None
    blocked = counter.wait_at(gate, begun)
    queued = counter.add(1)
    assert begun.wait()
    if scheduled == "threads":  # what runs has to end by itself
        blocked.add_done_callback(lambda f: gate.open())
    lazyflow.shutdown()
    for future in (queued, counter.add(1)):
        with pytest.raises(Cancelled, match="shut"):
            future.result(timeout=PATIENCE)
    with pytest.raises(Cancelled):
        blocked.result(timeout=PATIENCE)
    assert pid is None or not is_alive(pid)
    gate.open()
    assert Counter().add(1).result() == 1


# -- pools ----------------------------------------------------------------------------------


def test_a_pool_keeps_order(scheduler: str) -> None:
    pool = ActorPool([Counter(), Counter()])
    assert list(pool.map(lambda a, x: a.total(x, 1), range(20))) == list(range(1, 21))
    unordered = pool.map_unordered(lambda a, x: a.total(x), range(20))
    assert sorted(unordered) == list(range(20))
    assert pool.submit(lambda a, x: a.total(x), 5).result() == 5


def test_a_pool_gives_work_to_who_is_free(scheduled: str) -> None:
    gate = Gate()
    pool = ActorPool([Counter(), Counter()])
    held = pool.submit(lambda a, g: a.wait_at(g), gate)
    others = [pool.submit(lambda a, x: a.total(x), i) for i in range(10)]
    assert [f.result() for f in others] == list(range(10))
    assert not held.done()
    first = next(pool.map_unordered(lambda a, x: a.total(x), [1]))
    gate.open()
    assert held.result() == "passed"
    assert first == 1


def test_errors_in_a_pool(scheduler: str) -> None:
    pool = ActorPool([Counter()])
    with pytest.raises(ValueError, match="no"):
        pool.submit(lambda a, x: a.fail(), 1).result()
    with pytest.raises(AttributeError, match="no method"):
        pool.submit(lambda a, x: a.nothing(), 1).result()
    with pytest.raises(TypeError, match="has to return the future"):
        pool.submit(lambda a, x: 3, 1).result()
    assert pool.submit(lambda a, x: a.total(x), 2).result() == 2
    with pytest.raises(TypeError, match="takes handles of actors"):
        ActorPool([Plain()])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="one actor at least"):
        ActorPool([])


# -- how many calls may be pending -----------------------------------------------------------


def made_in_a_thread(make: Any) -> tuple[threading.Thread, list[Any]]:
    """Start making calls in a thread, which may be held back; returns it and the futures."""
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.extend(make()), daemon=True)
    thread.start()
    return thread, made


def test_who_makes_too_many_calls_sleeps_until_some_have_ended(scheduled: str) -> None:
    counter, gate, begun = Counter(), Gate(), Gate()

    def make() -> Iterator[Any]:
        with config.set(max_pending_calls=3):
            yield counter.wait_at(gate, begun)
            for _ in range(20):
                yield counter.add()

    thread, made = made_in_a_thread(make)
    assert begun.wait()
    assert until(lambda: len(counter._core.pending._sleepers) == 1)
    assert len(made) == 3
    gate.open()
    thread.join(PATIENCE)
    assert [f.result() for f in made[1:]] == list(range(1, 21))
    assert counter.add(0).result() == 20
    assert until(lambda: not counter._core.pending._calls)


def test_calls_that_end_otherwise_make_room_too() -> None:
    with config.set(scheduler="threads", max_pending_calls=1):
        counter = Counter()
        for _ in range(3):
            with pytest.raises(ValueError, match="no"):
                counter.fail().result()
        gate, begun = Gate(), Gate()
        first = counter.wait_at(gate, begun)
        begun.wait()
        thread, made = made_in_a_thread(lambda: iter([counter.add()]))
        with config.set(max_pending_calls=3):
            second = counter.add()
        first.cancel()
        second.cancel()
        gate.open()
        thread.join(PATIENCE)
        assert made[0].result() == 301


def test_a_ctrl_c_ends_the_sleep_and_the_call_is_not_made(scheduled: str) -> None:
    counter, gate = Counter(), Gate()
    passed = counter.wait_at(gate)
    pending = counter._core.pending

    def interrupt() -> None:
        until(lambda: pending._sleepers)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=interrupt).start()
        with config.set(max_pending_calls=1), pytest.raises(KeyboardInterrupt):
            counter.add()
    finally:
        signal.signal(signal.SIGINT, before)
    gate.open()
    assert passed.result() == "passed"
    assert counter.add(0).result() == 0
    assert pending._sleepers == {}


@actor
class Caller:
    """Calls other actors, and itself, without waiting for them."""

    def call(self, other: Any, n: int) -> list[Any]:
        return [other.add() for _ in range(n)]

    def call_me(self, me: Any, n: int) -> list[Any]:
        return [me.call(None, 0) for _ in range(n)]


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_what_others_wait_for_is_not_held_back(scheduler: str) -> None:
    with config.set(scheduler=scheduler, max_pending_calls=1):
        caller, counter, gate = Caller(), Counter(), Gate()
        if scheduler == "sync":
            gate.open()
        first = counter.wait_at(gate)
        by_actor = caller.call(counter, 5).result()
        by_task = delayed(lambda: [counter.add() for _ in range(5)])().compute(scheduler="threads")
        gate.open()
        assert first.result() == "passed"
        assert [f.result() for f in (*by_actor, *by_task)] == list(range(1, 11))
        assert [f.result() for f in caller.call_me(caller, 3).result()] == [[], [], []]


def test_a_coroutine_is_not_held_back_and_a_cell_of_a_notebook_is() -> None:
    with config.set(scheduler="threads", max_pending_calls=2):
        counter, gate = Counter(), Gate()

        async def calls() -> list[int]:
            first = counter.wait_at(gate)
            made = [counter.add() for _ in range(5)]
            asyncio.get_running_loop().call_soon(lambda: made.append(counter.add()))
            await asyncio.sleep(0)
            gate.open()
            await first
            return [await f for f in made]

        assert asyncio.run(calls()) == [1, 2, 3, 4, 5, 6]

        async def kernel() -> None:  # as IPython runs a cell
            exec("for _ in range(9): counter.add()\nleft = len(counter._core.pending._calls)", cell)

        cell: dict[str, Any] = {"counter": counter}
        asyncio.run(kernel())
        assert cell["left"] <= 2
        assert counter.add(0).result() == 15


def test_a_pool_of_actors_takes_as_much_work_as_may_be_pending(scheduled: str) -> None:
    pool, gate = ActorPool([Counter()]), Gate()

    def make() -> Iterator[Any]:
        with config.set(max_pending_calls=2):
            yield pool.submit(lambda a, _: a.wait_at(gate), 0)
            for k in range(5):
                yield pool.submit(lambda a, x: a.add(x), k)

    thread, made = made_in_a_thread(make)
    assert until(lambda: len(pool._pending._sleepers) == 1)
    assert len(made) == 2
    gate.open()
    thread.join(PATIENCE)
    assert [f.result() for f in made[1:]] == [0, 1, 3, 6, 10]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("scheduler", ["threads", "distributed"], indirect=True)
def test_the_child_of_a_fork_is_not_held_back_by_calls_of_its_parent(scheduler: str) -> None:
    with config.set(max_pending_calls=1):
        counter, gate = Counter(), Gate()
        passed = counter.wait_at(gate)
        child = os.fork()
        if not child:
            signal.alarm(20)
            os._exit(7 if isinstance(counter.add().exception(), Cancelled) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        gate.open()
        assert passed.result() == "passed"
