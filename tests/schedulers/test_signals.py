"""What the contract's tests hear of their tasks by, in threads, other processes and a fork."""

import gc
import os
import pickle
import subprocess
import sys
import threading

import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazyflow.testing.signals import Barrier, Gate, Level, Tally

BOOT = "import pickle, sys; func, args = pickle.load(sys.stdin.buffer); print(repr(func(*args)))"


class Elsewhere:
    """A call in another process; `result()` is the text of what it returned."""

    def __init__(self, func, *args):
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(
            [sys.executable, "-c", BOOT], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        try:
            self.process.stdin.write(cloudpickle.dumps((func, args)))
        finally:
            cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
        self.process.stdin.flush()

    def result(self):
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return out.decode().strip()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.lists(JSON, max_size=5))
@settings(max_examples=30)
def test_a_tally_gives_back_what_was_added(items):
    tally = Tally()
    assert [tally.add(item) for item in items] == list(range(1, len(items) + 1))
    assert tally.items() == items
    assert len(tally) == len(items)


def count(tally, who, n):
    return [tally.add([who, i]) for i in range(n)]


def test_a_tally_of_threads_and_processes_loses_nothing():
    tally, n, numbers = Tally(), 200, []
    others = [Elsewhere(count, tally, f"process {k}", n) for k in range(2)]
    threads = [
        threading.Thread(target=lambda k=k: numbers.extend(count(tally, f"thread {k}", n)))
        for k in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in others:
        numbers += eval(other.result())
    assert sorted(numbers) == list(range(1, 5 * n + 1))  # each place was given once
    for who in {who for who, _ in tally.items()}:
        assert [i for w, i in tally.items() if w == who] == list(range(n))


def test_a_gate_opens_for_all_and_stays_open():
    here, there = Gate(), Gate()

    def pass_on(here, there):
        there.open()
        return here.wait()

    others = [Elsewhere(pass_on, here, there) for _ in range(2)]
    assert there.wait()  # opened by a task
    assert not here.wait(0)
    here.open()
    here.open()
    assert [other.result() for other in others] == ["True", "True"]
    assert here.wait(0) and pickle.loads(pickle.dumps(here)).wait(0)


def test_who_waits_at_a_gate_hears_that_its_maker_is_gone():
    gate, ready = Gate(), Gate()

    def wait(gate, ready):
        ready.open()
        return gate.wait()

    other = Elsewhere(wait, gate, ready)
    assert ready.wait()
    late = pickle.loads(pickle.dumps(gate))
    del gate
    gc.collect()
    assert other.result() == "False"
    assert late.wait() is False


def test_a_barrier_lets_all_pass_together():
    barrier, passed = Barrier(3), Tally()

    def meet(barrier, passed):
        at = barrier.wait()
        passed.add(at)
        return at

    others = [Elsewhere(meet, barrier, passed) for _ in range(2)]
    assert passed.items() == []
    mine = meet(barrier, passed)
    assert sorted([mine, *[int(other.result()) for other in others]]) == [0, 1, 2]


def test_a_barrier_names_how_many_came():
    barrier = Barrier(3)
    with pytest.raises(TimeoutError, match="1 of 3 came to the barrier in 0 s"):
        barrier.wait(0)
    with pytest.raises(TimeoutError, match="2 of 3"):
        barrier.wait(0)
    assert barrier.wait(0) == 2


def test_a_level_counts_by_process_and_wakes_who_waits_for_it():
    level, on, off = Level(), Gate(), Gate()

    def two(level, on, off):
        with level, level:
            on.open()
            off.wait()

    level.up()
    other = Elsewhere(two, level, on, off)
    assert on.wait()
    assert (level.now(), level.most(), level.most_in_a_process()) == (3, 3, 2)
    assert level.wait_for(3)
    assert not level.wait_for(1, timeout=0)
    off.open()
    assert level.wait_for(1)
    assert (level.now(), level.most()) == (1, 3)
    assert other.result() == "None"


def test_who_counts_himself_up_does_not_need_the_one_that_saw_it(monkeypatch):
    """It looked, had what it waited for, and went before the bell rang."""
    makers = [Level()]
    copy = pickle.loads(pickle.dumps(makers[0]))
    add = Tally.add

    def seen(tally, item):
        add(tally, item)
        assert makers.pop().now() == 1

    monkeypatch.setattr(Tally, "add", seen)
    copy.up()
    assert not makers and not os.path.exists(copy.folder)


def test_a_level_falls_when_the_body_raises():
    level = Level()
    with pytest.raises(KeyError), level:
        raise KeyError
    assert (level.now(), level.most()) == (0, 1)
    assert Level().most() == Level().most_in_a_process() == 0


@pytest.mark.parametrize("make", [Tally, Gate, Level])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork in a process with threads
def test_the_files_go_with_the_first_object_and_not_with_copies_or_forks(make):
    first = make()
    folder = first.folder
    copy = pickle.loads(pickle.dumps(first))
    del copy
    pid = os.fork()
    if pid == 0:  # pragma: no cover
        del first
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.path.isdir(folder)
    del first
    gc.collect()
    assert not os.path.exists(folder)


def test_gates_leave_no_descriptor_open():
    gates = [Gate() for _ in range(5)]
    pipes = {os.path.realpath(gate._pipe) for gate in gates}

    def held():
        found = []
        for fd in os.listdir("/dev/fd"):
            try:
                found.append(os.readlink(f"/dev/fd/{fd}").removesuffix(" (deleted)"))
            except OSError:  # others of this process come and go
                pass
        return [path for path in found if path in pipes]

    assert sorted(held()) == sorted(pipes)
    for gate in gates:
        gate.open()
        assert gate.wait()
    del gate, gates
    gc.collect()
    assert held() == []
