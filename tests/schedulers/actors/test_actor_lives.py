"""Several calls of an actor at once, and what ends actors, calls and processes."""

import gc
import os
import signal
import threading
from typing import Any

import numpy as np
import pytest
from actor_examples import Async, Counter, Plain, Weights, after
from waiting import until

import lazyflow
from lazyflow import (
    Cancelled,
    WorkerDied,
    actor,
    compute,
    config,
    delayed,
    persist,
    put,
    submit,
    wait,
)
from lazyflow.schedulers.registry import info
from lazyflow.testing.signals import Barrier, Gate, Level, Tally

PATIENCE = 20.0  # seconds
ENDS = {"exit": "exit code 3", "SIGKILL": "SIGKILL", "SIGSEGV": "SIGSEGV"}

def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

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
    meeting = Barrier(2)
    parts = [delayed(where)(meeting, big.get(), counter.pid(), i) for i in range(40)]
    found = set(compute(*parts, num_workers=2))
    assert len(found) == 2 and not pids & found


def where(meeting: Barrier, *given: Any) -> int:
    if given[-1] < meeting.parties:  # all workers that there may be run one
        meeting.wait()
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


def test_a_cancelled_call_that_waited_lets_those_behind_it_go(remote: str) -> None:
    gate, counter = Gate(), Counter()
    assert counter.add(0).result() == 0  # from now on only these calls can have others sent
    late = Counter().wait_at(gate)
    waiting, behind = counter.note(late), counter.add(1)
    assert waiting.cancel()
    assert behind.result(timeout=PATIENCE) == 1
    gate.open()


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
