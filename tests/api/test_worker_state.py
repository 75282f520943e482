"""Worker states: built once, reset between tasks, torn down at the end, on every scheduler."""

import gc
import logging
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import cloudpickle
import pytest
from engine_schedulers import DISTRIBUTED, ELSEWHERE, LOCAL, SCHEDULERS, local_client
from fault_tools import until
from interrupt_steps import interrupt

import lazyflow
from lazyflow import compute, delayed, worker_state
from lazyflow.departures import wait_for_last_calls
from lazyflow.schedulers.core import task_resources
from lazyflow.testing.signals import Barrier, Gate, Tally

#: Tasks of each scheduler use this many workers at most, of one thread each on engines.
WORKERS = 2
IN_THIS_PROCESS = ("sync", "threads")


@pytest.fixture(params=SCHEDULERS)
def scheduler(request):
    with lazyflow.config.set(num_workers=WORKERS):
        yield request.param


def one_at_a_time(scheduler):
    return {"scheduler": scheduler, "num_workers": 1}


class Net:
    """As a model: it can't be pickled, and remembers what was done to it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.done = []

    def __reduce__(self):
        raise TypeError("a Net can't be pickled")


def make_state(made=None, reset=None, teardown=None, **options):
    def init():
        if made is not None:
            made.add((os.getpid(), threading.get_ident()))
        return Net()

    return worker_state(init, reset, teardown, **options)


def use(state, word="used"):
    """Leave a trace in the value; return what was there before."""
    net = state.get()
    before = list(net.done)
    net.done.append(word)
    return before


def clear(net):
    net.done.clear()


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
    assert any("state_cells" in file for file, _ in places)


@pytest.fixture
def quiet(monkeypatch):
    # One that comes inside a finalizer is dropped by Python.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)


# -- travelling -------------------------------------------------------------------------------


def test_the_value_does_not_travel_and_the_state_stays_itself():
    state = make_state()
    state.get()
    assert pickle.loads(pickle.dumps(state)) is state
    assert cloudpickle.loads(cloudpickle.dumps(lambda: state))() is state
    assert lazyflow.tokenize(state) == lazyflow.tokenize(state) != lazyflow.tokenize(make_state())


def test_a_function_that_can_not_travel_is_named():
    lock = threading.Lock()
    state = worker_state(lambda: lock)
    assert state.get() is lock
    with pytest.raises(TypeError, match="lock") as caught:
        pickle.dumps(state)
    assert "make that inside init" in caught.value.__notes__[0]


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_functions_of_a_state_may_refer_to_it(elsewhere):
    box = []
    state = worker_state(list, teardown=lambda _: box[0])
    box.append(state)
    assert compute(delayed(lambda: state.get())(), scheduler=elsewhere) == ([],)


def test_on_a_pool_of_the_user():
    made = Tally()
    state = make_state(made, clear)
    with ProcessPoolExecutor(1) as pool:
        values = compute(*[delayed(use)(state) for _ in range(5)], scheduler=pool)
    assert values == ([],) * 5
    assert len(made) == 1 and made.items()[0][0] != os.getpid()
    with ThreadPoolExecutor(2) as pool:
        assert compute(*[delayed(use)(state) for _ in range(5)], scheduler=pool) == ([],) * 5


# -- the end ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", [*LOCAL, DISTRIBUTED], indirect=True)  # Ray kills its own
def test_it_is_torn_down_when_the_pool_ends(scheduler):
    ended = Tally()
    state = make_state(teardown=lambda net: ended.add((os.getpid(), net.done)))
    compute(delayed(use)(state, "a"), **one_at_a_time(scheduler))
    assert len(ended) == 0
    lazyflow.shutdown()
    ((pid, done),) = ended.items()
    assert done == ["a"]
    assert (pid == os.getpid()) is (scheduler in IN_THIS_PROCESS)
    compute(delayed(use)(state, "b"), **one_at_a_time(scheduler))
    lazyflow.shutdown()
    assert [done for _, done in ended.items()] == [["a"], ["b"]]


@pytest.fixture
def worker_of_two_threads():
    with local_client(1, threads=2, set_as_default=False) as client:
        yield client


def test_threads_of_an_engines_worker_keep_theirs(worker_of_two_threads):
    made, ended = Tally(), Tally()
    state = make_state(made, clear, lambda net: ended.add(1), scope="thread")
    both = Barrier(2)

    def task(i):
        if i < 2:
            both.wait()  # in two threads at once
        return use(state)

    on = {"scheduler": worker_of_two_threads}
    for _ in range(2):
        assert compute([delayed(task)(i) for i in range(50)], **on) == ([[]] * 50,)
        both = Barrier(2)
    assert len(made) == len({tuple(place) for place in made.items()}) == 2
    assert len(ended) == 0


def test_a_thread_of_an_engines_worker_ends_with_the_group_that_was_given_up(
    worker_of_two_threads,
):
    made, inside, gate, ended = Tally(), Gate(), Gate(), Gate()
    state = make_state(made, teardown=lambda net: ended.open(), scope="thread")

    def sits():
        use(state)
        inside.open()
        gate.wait()

    on = {"scheduler": worker_of_two_threads}
    given_up = lazyflow.persist(delayed(sits)(), **on)
    assert inside.wait()
    del given_up
    assert compute([delayed(use)(state) for _ in range(9)], num_workers=1, **on)[0][0] == []
    assert len(made) == 2
    gate.open()
    assert ended.wait()


def test_that_of_a_thread_is_torn_down_with_the_thread():
    ended = Tally()
    state = make_state(teardown=lambda net: ended.add(net.done), scope="thread")
    thread = threading.Thread(target=use, args=(state, "mine"))
    thread.start()
    thread.join()
    wait_for_last_calls()
    assert ended.items() == [["mine"]]
    compute(delayed(use)(state), scheduler="threads", num_workers=1)
    lazyflow.shutdown()
    assert ended.items() == [["mine"], ["used"]]


def test_it_goes_with_the_state():
    ended = Tally()
    state = make_state(reset=clear, teardown=lambda net: ended.add("ended"))
    compute(delayed(use)(state), scheduler="sync")
    compute(delayed(use)(state), scheduler="threads")
    del state
    assert until(lambda: gc.collect() >= 0 and ended.items())  # a thread may have yet to let go
    assert ended.items() == ["ended"]


def test_a_teardown_that_raises_is_logged(caplog):
    def teardown(net):
        raise ValueError("stuck")

    state = make_state(teardown=teardown)
    state.get()
    with caplog.at_level(logging.ERROR, "lazyflow"):
        lazyflow.shutdown()
    assert "teardown of <worker state" in caplog.text and "stuck" in caplog.text


def test_what_a_running_task_has_is_not_torn_down():
    ended = Tally()
    state = make_state(teardown=lambda net: ended.add(1))

    def task():
        state.get()
        task_resources.close_kept()
        return len(ended)

    assert compute(delayed(task)(), scheduler="sync") == (0,)


@pytest.mark.parametrize("name", [*LOCAL, DISTRIBUTED, None])
def test_it_is_torn_down_when_the_program_ends(name):
    code = f"""
        import lazyflow
        def end(words):
            print("ended", words, flush=True)
        state = lazyflow.worker_state(list, teardown=end)
        if {name!r} == None:
            state.get().append("caller")
        else:
            lazyflow.compute(
                lazyflow.delayed(lambda: state.get().append("task"))(), scheduler={name!r}
            )
        print("last line")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    expected = ["last line", "ended ['caller']" if name is None else "ended ['task']"]
    assert done.stdout.splitlines() == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_makes_its_own():
    made, ended = Tally(), Tally()
    state = make_state(made, teardown=lambda net: ended.add(os.getpid()))
    state.get()
    pid = os.fork()
    if not pid:
        state.get()
        lazyflow.shutdown()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert [p for p, _ in made.items()] == [os.getpid(), pid]
    assert ended.items() == [pid]
