"""Worker states: pickled as tokens, and torn down at the end, on every scheduler."""

import gc
import logging
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import cloudpickle
import pytest
from engine_schedulers import DISTRIBUTED, ELSEWHERE, LOCAL, SCHEDULERS, local_client
from fault_tools import without_heartbeats
from state_examples import IN_THIS_PROCESS, WORKERS, clear, make_state, one_at_a_time, use
from waiting import until

import lazyflow
from lazyflow import compute, delayed, worker_state
from lazyflow.finalizers import wait_for_last_calls
from lazyflow.schedulers.core import task_resources
from lazyflow.testing.signals import Barrier, Gate, Tally


@pytest.fixture(params=SCHEDULERS)
def scheduler(request):
    with lazyflow.config.set(num_workers=WORKERS):
        yield request.param


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
    assert "Make that object inside init" in caught.value.__notes__[0]


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
    assert len(made) in (2, 3)  # its own, and those of one or both of the worker's two threads
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


@pytest.mark.parametrize("elsewhere", ["processes", DISTRIBUTED])
def test_it_goes_with_the_state_in_workers(elsewhere):
    ended = Tally()
    for i in range(3):
        state = make_state(teardown=lambda net: ended.add(os.getpid()))
        compute([delayed(use)(state) for _ in range(4)], scheduler=elsewhere, num_workers=1)
        del state
        assert until(lambda: gc.collect() >= 0 and len(ended) > i)
    assert os.getpid() not in ended.items()


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
        print("last line", flush=True)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60
    )
    assert without_heartbeats(done.stderr) == ""
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
