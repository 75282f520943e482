"""Worker states: built once and reset between tasks, on every scheduler."""

import gc
import logging
import os
import signal
import sys
from functools import partial

import pytest
from engine_schedulers import ELSEWHERE, SCHEDULERS
from interrupt_steps import interrupt
from state_examples import IN_THIS_PROCESS, WORKERS, clear, make_state, one_at_a_time, use

import lazyflow
from lazyflow import compute, delayed, worker_state
from lazyflow.testing.signals import Barrier, Gate, Tally


@pytest.fixture(params=SCHEDULERS)
def scheduler(request):
    with lazyflow.config.set(num_workers=WORKERS):
        yield request.param


# -- built once -------------------------------------------------------------------------------


def test_it_is_built_once_in_a_process(scheduler):
    made = Tally()
    state = make_state(made)
    tasks = [delayed(lambda i: (use(state), os.getpid()))(i) for i in range(200)]
    values = compute(*tasks, scheduler=scheduler, num_workers=WORKERS)
    pids = {pid for _, pid in values}
    assert len(made) == len(pids) <= WORKERS
    assert {pid for pid, _ in made.items()} == pids
    if scheduler not in IN_THIS_PROCESS:
        assert os.getpid() not in pids
    # without a reset, each task sees all that was done before in its process
    assert sorted(len(before) for before, pid in values if pid == max(pids)) == list(
        range(sum(pid == max(pids) for _, pid in values))
    )
    # and it is there for the next compute
    compute(*tasks[:8], scheduler=scheduler, num_workers=WORKERS)
    assert len(made) <= WORKERS


def test_it_is_built_once_in_a_thread(scheduler):
    made = Tally()
    state = make_state(made, scope="thread")
    both = Barrier(WORKERS if scheduler == "threads" else 1)
    meeting = WORKERS if scheduler == "threads" else 0

    def task(i):
        if i < meeting:
            both.wait()  # in two threads at once
        return len(use(state))

    compute([delayed(task)(i) for i in range(50)], scheduler=scheduler, num_workers=WORKERS)
    places = [tuple(item) for item in made.items()]
    assert len(places) == len(set(places)) <= WORKERS
    if scheduler == "threads":
        assert len(places) == WORKERS
        assert {pid for pid, _ in places} == {os.getpid()}


def test_threads_share_the_value_of_their_process_one_after_the_other():
    state = worker_state(lambda: {"count": 0, "inside": 0})

    def task(i):
        mine = state.get()
        assert state.get() is mine
        mine["inside"] += 1
        assert mine["inside"] == 1  # nobody else is here
        count = mine["count"]
        for _ in range(20):  # each step may be where another thread goes on
            assert mine["count"] == count
        mine["count"] = count + 1
        mine["inside"] -= 1
        return id(mine)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        values = compute([delayed(task)(i) for i in range(2000)], scheduler="threads",
                         num_workers=4)
    finally:
        sys.setswitchinterval(interval)
    assert len(set(values[0])) == 1
    assert state.get() == {"count": 2000, "inside": 0}


def test_nobody_waits_for_a_task_that_does_not_use_it():
    state, gate = make_state(), Gate()

    def holds(_):
        state.get()
        return gate.wait()

    def opens():
        gate.open()
        return True

    assert compute(
        delayed(holds)(0), delayed(opens)(), scheduler="threads", num_workers=2
    ) == (True, True)


def test_a_state_as_an_argument_at_any_depth(scheduler):
    made = Tally()
    state = make_state(made)
    task = delayed(lambda deep, i: deep["here"][0].get() is deep["here"][0].get())
    values = compute(
        *[task({"here": [state]}, i) for i in range(20)], scheduler=scheduler, num_workers=WORKERS
    )
    assert set(values) == {True}
    assert len(made) <= WORKERS


def test_the_caller_has_one_too():
    made, reset = Tally(), Tally()
    state = make_state(made, lambda net: reset.add(1))
    state.get().done.append("mine")
    assert state.get().done == ["mine"]
    assert len(made) == 1 and len(reset) == 0
    assert compute(delayed(use)(state), scheduler="sync") == (["mine"],)
    assert len(made) == 1 and len(reset) == 1


# -- reset ------------------------------------------------------------------------------------


def test_it_is_reset_after_a_task_that_used_it_and_after_no_other(scheduler):
    resets = Tally()

    def reset(net):
        resets.add(len(net.done))
        net.done.clear()

    state = make_state(reset=reset)

    def task(i):
        if i % 2:
            use(state)
            return use(state)  # twice in one task: reset once
        return None

    values = compute(*[delayed(task)(i) for i in range(20)], **one_at_a_time(scheduler))
    assert values == (None, ["used"]) * 10
    assert resets.items() == [2] * 10


def test_it_is_reset_before_the_next_task_begins(scheduler):
    order = Tally()
    state = worker_state(lambda: None, lambda _: order.add("reset"))

    def first():
        state.get()
        order.add("first")
        return 1

    def second(x):
        order.add("second")
        return x

    compute(delayed(second)(delayed(first)()), **one_at_a_time(scheduler))
    assert order.items() == ["first", "reset", "second"]


def test_it_is_reset_before_the_next_task_begins_when_it_raised(scheduler):
    order = Tally()
    state = worker_state(lambda: None, lambda _: order.add("reset"))

    def task(i):
        if i == 0:
            state.get()
        order.add(i)
        return 1 / i

    tasks = [delayed(task)(i) for i in range(2)]
    compute(tasks, on_error="collect", **one_at_a_time(scheduler))
    assert "".join(map(str, order.items())) in ("0reset1", "10reset")


def test_it_is_reset_after_a_task_that_raised(scheduler):
    state = make_state(reset=clear)

    def task(i):
        before = use(state)
        assert before == []
        if i % 2:
            raise LookupError(i)
        return i

    values = compute(
        *[delayed(task)(i) for i in range(6)], on_error="collect", **one_at_a_time(scheduler)
    )
    assert [type(v) for v in values] == [int, LookupError] * 3
    with pytest.raises(LookupError):
        compute(delayed(task)(1), scheduler=scheduler)
    assert compute(delayed(task)(2), scheduler=scheduler) == (2,)


def test_it_is_reset_before_a_retry(scheduler):
    state, tries = make_state(reset=clear), Tally()

    def task(x):
        assert use(state) == []
        if tries.add(1) < 3:
            raise OSError("again")
        return x

    flaky = delayed(task, retries=5)
    assert compute(flaky(1), scheduler=scheduler) == (1,)
    tries = Tally()
    assert compute(flaky(delayed(list)()), scheduler=scheduler) == ([],)  # of inputs as copies


def test_it_is_reset_when_the_run_was_given_up_meanwhile():
    state, inside, gate = make_state(reset=clear), Gate(), Gate()

    def task():
        use(state)
        inside.open()
        gate.wait()

    with pytest.raises(lazyflow.TaskTimeout):
        compute(delayed(task)(), scheduler="threads", timeout=0.05)
    assert inside.wait()
    gate.open()
    assert compute(delayed(use)(state), scheduler="threads") == ([],)


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_a_reset_that_raises_means_another_value(scheduler, kind, caplog, capfd):
    made, ended = Tally(), Tally()

    def reset(net):
        raise kind("worn out")

    state = make_state(made, reset, lambda net: ended.add(len(net.done)))
    with caplog.at_level(logging.ERROR, "lazyflow"):
        for _ in range(3):
            assert compute(delayed(use)(state), **one_at_a_time(scheduler)) == ([],)
    assert len(made) == 3
    assert ended.items() == [1, 1, 1]
    if scheduler in IN_THIS_PROCESS:
        assert "the next task builds another value" in caplog.text


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_a_worker_that_takes_the_place_of_a_killed_one_builds_its_own(elsewhere):
    made, tries = Tally(), Tally()
    state = make_state(made, clear)

    def task():
        before = use(state)
        if tries.add(1) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return before

    assert compute(delayed(task)(), scheduler=elsewhere, num_workers=1) == ([],)
    assert len({pid for pid, _ in made.items()}) == len(made) == 2


def test_a_value_that_a_task_returns_lazily_comes_after_the_reset(scheduler):
    state = make_state(reset=clear)

    def outer():
        use(state)
        return delayed(use)(state)

    assert compute(delayed(outer)(), scheduler=scheduler) == ([],)


@pytest.mark.parametrize("scope", ["process", "thread"])
@pytest.mark.parametrize("by", ["tasks", "actor"])
def test_workers_tear_it_down_when_it_is_dropped(by, scope):
    made, ended, gone = Tally(), Tally(), Gate()

    def teardown(net):
        ended.add(os.getpid())
        gone.open()

    def task(state):
        return use(state), os.getpid()

    state, other = make_state(made, teardown=teardown, scope=scope), make_state(scope=scope)
    if by == "actor":
        with lazyflow.config.set(scheduler="processes"):
            actor = lazyflow.actor(Asks)()
        (_, pid), _ = actor.ask(state).result(), actor.ask(other).result()
    else:
        # As an argument and in a closure, which the worker keeps for other computes.
        on = one_at_a_time("processes")
        compute(delayed(task)(other), delayed(partial(use, state))(), **on)
        ((_, pid),) = compute(delayed(task)(state), **on)
    assert len(made) == 1 and len(ended) == 0 and pid != os.getpid()
    del state
    gc.collect()
    assert gone.wait(30)
    assert ended.items() == [pid]
    if by == "actor":
        assert actor.ask(other).result() == (["used"], pid)
    else:
        assert compute(delayed(task)(other), **on) == ((["used"], pid),)


class Asks:
    def ask(self, state):
        return use(state), os.getpid()


# -- errors -----------------------------------------------------------------------------------


def test_what_init_raises_the_task_raises_and_the_next_tries_again(scheduler):
    tries = Tally()

    def init():
        if tries.add(1) == 1:
            raise ConnectionError("no such host")
        return tries

    state = worker_state(init)
    with pytest.raises(ConnectionError, match="no such host") as caught:
        compute(delayed(lambda: len(state.get()))(), **one_at_a_time(scheduler))
    notes = " ".join(caught.value.__notes__)
    assert "while <worker state" in notes and "tries again" in notes
    assert compute(delayed(lambda: len(state.get()))(), **one_at_a_time(scheduler)) == (2,)


def test_a_task_inside_a_task_is_told_that_it_would_wait_for_ever(scheduler):
    state = make_state()

    def outer():
        state.get()
        return compute(delayed(use)(state))

    with pytest.raises(RuntimeError, match=r"in use by the task that computes this one.*argument"):
        compute(delayed(outer)(), scheduler=scheduler)
    # it is free again, and a task inside a task may have what the outer one has not
    assert compute(delayed(lambda: compute(delayed(use)(state)))(), scheduler=scheduler)


def test_two_states_in_opposite_order_are_an_error_and_no_hang():
    one, two, both = make_state(), make_state(), Barrier(2)

    def task(first, second):
        first.get()
        both.wait()
        second.get()
        return True

    values = compute(
        delayed(task)(one, two), delayed(task)(two, one),
        scheduler="threads", num_workers=2, on_error="collect",
    )
    errors = [v for v in values if v is not True]
    assert errors and all(isinstance(e, RuntimeError) for e in errors)
    assert "same order" in str(errors[0])
    assert compute(delayed(use)(one), delayed(use)(two), scheduler="threads")


def test_who_waits_lets_go_of_its_place_when_the_holder_sleeps():
    state, sleeps = make_state(), Gate()
    slow = delayed(sleeps.wait)().persist(scheduler="threads", num_workers=1)

    def holder():
        state.get()
        return compute(slow, scheduler="threads")  # a run of others: it needs a place

    def waiter(i):
        return len(use(state))

    tasks = [delayed(holder)(), *[delayed(waiter)(i) for i in range(4)], delayed(sleeps.open)()]
    values = compute(*tasks, scheduler="threads", num_workers=2)
    assert values[0] == (True,)


def test_init_that_asks_for_the_state_itself():
    box = []
    state = worker_state(lambda: box[0].get())
    box.append(state)
    with pytest.raises(RuntimeError, match="calls get"):
        compute(delayed(lambda: box[0].get())(), scheduler="sync")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: worker_state(3), TypeError, "init must be a function, not int; .* argument"),
        (lambda: worker_state(list, reset=1), TypeError, "reset must be a function, not int"),
        (lambda: worker_state(list, scope="proces"), ValueError, "did you mean 'process'"),
    ],
)
def test_what_is_wrong_is_said(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.usefixtures("quiet")
def test_ctrl_c_at_every_step_leaves_it_to_the_next_task():
    places = set()
    for n in range(1, 10**6):
        state = worker_state(list, reset=list.clear)

        def task(state=state):
            words = state.get()
            words.append("here")
            return len(words)

        place = interrupt(
            lambda task=task: compute(delayed(task)(), scheduler="sync"), n
        )
        if place is None:
            break
        places.add(place)
        assert compute(delayed(task)(), scheduler="threads", timeout=20) == (1,), place
        assert compute(delayed(task)(), scheduler="sync") == (1,), place
    assert len(places) > 50
    assert any("worker_states" in file for file, _ in places)


@pytest.fixture
def quiet(monkeypatch):
    # One that comes inside a finalizer is dropped by Python.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
