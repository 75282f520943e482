"""Handles of actors where tasks and other actors have them, the same on every scheduler."""

import gc
import os
import pickle
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from actor_examples import Counter, Plain, Weights
from handle_examples import (
    Bouncer,
    Node,
    Stage,
    add_by,
    note_all,
    push_gradients,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import until

import lazyflow
from lazyflow import CycleError, WorkerDied, actor, compute, config, delayed, persist, put, submit
from lazyflow.schedulers.actors.handles.exchange import exchange
from lazyflow.schedulers.registry import info
from lazyflow.testing.signals import Gate

PATIENCE = 20.0  # seconds


# -- where a handle can be ------------------------------------------------------------------


class Box:
    def __init__(self, handle: Any) -> None:
        self.handle = handle


def unboxed(box: Box, k: int) -> Any:
    return add_by(box.handle, k)


WAYS = {
    "argument": lambda h, k: delayed(add_by)(h, k).compute(),
    "keyword": lambda h, k: delayed(add_by)(handle=h, k=k).compute(),
    "closure": lambda h, k: delayed(lambda: add_by(h, k))().compute(),
    "partial": lambda h, k: delayed(partial(add_by, h))(k).compute(),
    "list": lambda h, k: delayed(lambda hs: add_by(hs[0], k))([h]).compute(),
    "dict": lambda h, k: delayed(lambda d: add_by(d["a"]["b"], k))({"a": {"b": h}}).compute(),
    "object": lambda h, k: delayed(unboxed)(Box(h), k).compute(),
    "submit": lambda h, k: submit(add_by, h, k).result(),
    "put": lambda h, k: submit(add_by, put(h), k).result(),
    "put in a dict": lambda h, k: submit(lambda d: add_by(d["a"], k), put({"a": h})).result(),
    "lazy value": lambda h, k: delayed(add_by)(delayed(lambda x: x)(h), k).compute(),
    "persisted": lambda h, k: delayed(add_by)(persist(delayed(lambda x: x)(h))[0], k).compute(),
    "result": lambda h, k: add_by(delayed(lambda x: [x])(h).compute()[0], k),
    "bound method": lambda h, k: delayed(lambda add: add(k).result())(h.add).compute(),
    "actor": lambda h, k: Node().asked(h, "add", k).result(),
    "constructor": lambda h, k: Node(other=h).ask("other", "add", k).result(),
    "from an actor": lambda h, k: add_by(Node(other=h).handle("other").result()[0], k),
    "from actor to task": lambda h, k: delayed(lambda hs: add_by(hs[0], k))(
        Node(other=h).handle("other")).compute(),
    "from actor to actor": lambda h, k: Node().asked(
        Node(other=h), "ask", "other", "add", k).result(),
    "map": lambda h, k: sum(f.result() for f in lazyflow.map(partial(add_by, h), [k])),
    "pickle": lambda h, k: add_by(pickle.loads(pickle.dumps(h)), k),
}


@pytest.mark.parametrize("way", WAYS)
def test_calls_of_all_handles_go_to_one_actor(scheduler: str, way: str) -> None:
    counter = Counter(10)
    expected = 10
    for k in (1, 2):
        expected += k
        assert WAYS[way](counter, k) == expected
    assert counter.add(4).result() == expected + 4


@pytest.mark.parametrize("where", ["sync", "threads", "processes"])
def test_actors_of_one_scheduler_are_called_by_tasks_of_another(
    scheduler: str, where: str
) -> None:
    counter = Counter.options(scheduler=where)()
    assert compute(*[delayed(add_by)(counter, 0) for _ in range(5)]) == (0,) * 5
    assert delayed(add_by)(counter, 5).compute() == 5
    assert counter.add(1).result() == 6


def test_a_handle_is_the_same_one_everywhere(scheduler: str) -> None:
    first, second = Counter(), Counter()
    back = delayed(lambda *h: list(h))(first, second, first).compute()
    assert back == [first, second, first]
    assert len({*back, first, second}) == 2
    assert delayed(lambda *h: len(set(h)))(first, second, first).compute() == 2


def test_a_handle_has_the_methods_of_its_class(scheduler: str) -> None:
    counter = Counter()

    def look(h: Any) -> list[str]:
        found = [repr(h), repr(h.add)]
        for name in ("ad", "size", "limit", "__len__", "_no"):
            try:
                getattr(h, name)
            except AttributeError as error:
                found.append(str(error))
        return [*found, *dir(h)]

    assert delayed(look)(counter).compute() == look(counter)


def test_the_actor_of_a_worker_can_be_called_by_the_program(scheduler: str) -> None:
    node = Node()
    child = node.child(5).result()
    assert child.add(1).result() == 6
    assert delayed(add_by)(child, 2).compute() == 8
    assert node.asked(child, "add", 1).result() == 9


# -- what calls are given and give ----------------------------------------------------------


def test_arguments_and_results_are_those_of_the_owner(scheduler: str) -> None:
    weights = Weights(100_000)

    def use(w: Any) -> Any:
        ones = np.ones(100_000)
        first = w.step(ones)
        ones += 1  # the call has its own
        second = w.step(ones, delayed(np.full)(100_000, 0.5), gradient_of(3))
        first.result()[:] = 0
        return second.result().sum(), second.result().flags.writeable

    assert delayed(use)(weights).compute() == (100_000 * 6.5, True)
    assert weights.step().result().sum() == 100_000 * 6.5


def test_arguments_are_as_they_were_when_the_call_was_made(scheduled: str) -> None:
    """Also of a call that others hold back, whose inputs are not there."""
    weights, counter, gate = Weights(50_000), Counter(), Gate()

    def use(w: Any, c: Any, gate: Gate) -> Any:
        first = w.step(c.late(gate, 50_000))
        ones = np.ones(50_000)
        second = w.step(ones)
        ones += 1
        gate.open()
        return first.result().sum(), second.result().sum()

    assert delayed(use)(weights, counter, gate).compute() == (100_000.0, 150_000.0)


def gradient_of(k: float) -> Any:
    return submit(np.full, 100_000, float(k))


def test_errors_have_the_lines_of_both_calls(scheduler: str) -> None:
    counter = Counter()

    def fails(h: Any) -> None:
        h.fail().result()

    with pytest.raises(ValueError, match="no") as caught:
        delayed(fails)(counter).compute()
    notes = "\n".join(caught.value.__notes__)
    assert "in lazyflow task Counter.fail()" in notes
    assert "test_handles.py" in notes
    assert counter.add(0).result() == 100


def test_what_can_not_travel_fails_alone(scheduler: str) -> None:
    if scheduler in ("sync", "threads"):
        pytest.skip("everything travels within a process")
    counter = Counter()

    def tries(h: Any) -> list[str]:
        from actor_examples import lock

        found = [type(h.note(lock()).exception()).__name__,
                 type(h.unpicklable().exception()).__name__]
        return [*found, h.add(1).result()]

    assert delayed(tries)(counter).compute() == ["SerializationError", "SerializationError", 1]


def test_calls_of_one_caller_run_in_order(scheduler: str) -> None:
    counter = Counter()
    compute(*[delayed(note_all)(counter, who, 30) for who in "abc"])
    notes = counter.notes().result()
    assert sorted(notes) == [(who, i) for who in "abc" for i in range(30)]
    for each in "abc":
        assert [i for who, i in notes if who == each] == list(range(30))


def test_a_call_can_be_cancelled(scheduled: str) -> None:
    counter, gate = Counter(), Gate()
    held = counter.wait_at(gate)

    def cancels(h: Any) -> bool:
        return bool(h.add(1).cancel())

    assert delayed(cancels)(counter).compute()
    gate.open()
    held.result()
    assert counter.add(0).result() == 0


def test_random_programs_of_nodes(processes: str) -> None:
    """A program of calls through chains of handles gives what one process gives."""
    counters, totals = [Counter(0) for _ in range(3)], [0, 0, 0]
    nodes = [Node() for _ in range(2)]
    ways = {
        "direct": lambda target, k: target.add(k),
        "task": lambda target, k: submit(add_by, target, k),
        "node": lambda target, k: nodes[0].asked(target, "add", k),
        "chain": lambda target, k: nodes[0].asked(nodes[1], "asked", target, "add", k),
        "kept": lambda target, k: (nodes[1].meet(kept=target), nodes[1].ask("kept", "add", k))[1],
    }
    steps = st.tuples(st.integers(0, 2), st.integers(-9, 9), st.sampled_from(sorted(ways)))

    @settings(max_examples=30, deadline=None)
    @given(st.lists(steps, max_size=8))
    def check(program: list[tuple[int, int, str]]) -> None:
        for which, k, way in program:
            totals[which] += k
            assert ways[way](counters[which], k).result() == totals[which]

    check()


# -- classical uses -------------------------------------------------------------------------


def test_a_tree_reduction_over_sixteen_actors(scheduler: str) -> None:
    nodes = [Node(2.0**k, ) for k in range(16)]

    def tree(k: int) -> Any:
        return None if k >= 16 else (nodes[k], tree(2 * k + 1), tree(2 * k + 2))

    _, left, right = tree(0)
    assert nodes[0].total(left, right).result() == 2.0**16 - 1


def test_workers_push_to_a_parameter_server(scheduler: str) -> None:
    server = Weights(4)
    workers = [delayed(push_gradients)(server, rank, 5) for rank in range(4)]
    assert compute(*workers) == (0, 1, 2, 3)
    np.testing.assert_array_equal(server.step().result(), np.full(4, 15.0))


def test_a_pipeline_of_three_actors(scheduler: str) -> None:
    third = Stage("c")
    second = Stage("b", third)
    first = Stage("a", second)
    items = [first.work(i) for i in range(20)]
    assert [item.result() for item in items] == ["abc"] * 20
    assert [stage.order().result() for stage in (first, second, third)] == [list(range(20))] * 3


# -- how long an actor lives ----------------------------------------------------------------


def alive(pid: int) -> bool:
    """Tell whether a process exists that has not ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_actor_lives_while_another_has_its_handle(separate: str) -> None:
    counter, node = Counter(), Node()
    pid = counter.pid().result()
    node.meet(kept=counter).result()
    del counter
    gc.collect()
    assert node.ask("kept", "add", 3).result() == 3
    assert alive(pid)
    node.leave().result()
    assert until(lambda: not alive(pid), PATIENCE)


def test_an_actor_ends_with_the_process_that_had_its_last_handle(separate: str) -> None:
    counter, node = Counter(), Node()
    pid = counter.pid().result()
    node.meet(kept=counter).result()
    del counter
    gc.collect()
    assert alive(pid)
    with pytest.raises(WorkerDied):
        node.end("SIGKILL").result()
    assert until(lambda: not alive(pid), PATIENCE)


def test_an_actor_lives_while_a_checkpoint_has_its_handle(separate: str) -> None:
    counter, node = Counter(), Node.options(restarts=1, checkpoint=("state", "load"))()
    node.meet(kept=counter).result()
    del counter
    gc.collect()
    assert node.ask("kept", "add", 3).result() == 3
    with pytest.raises(WorkerDied):
        node.end("SIGKILL").result()
    assert node.ask("kept", "add", 1).result() == 4


def test_an_actor_lives_while_a_value_with_its_handle_was_put(separate: str) -> None:
    counter = Counter()
    pid = counter.pid().result()
    kept = put({"a": counter})
    del counter
    gc.collect()
    assert submit(lambda d: add_by(d["a"], 2), kept).result() == 2
    assert submit(lambda d: add_by(d["a"], 2), kept).result() == 4
    assert alive(pid)
    del kept
    gc.collect()
    assert until(lambda: not alive(pid), PATIENCE)


def test_an_actor_lives_while_a_task_has_its_handle(separate: str) -> None:
    gate, counter = Gate(), Counter()
    pid = counter.pid().result()

    def later(h: Any, gate: Gate) -> Any:
        gate.wait()
        return add_by(h, 5)

    found = submit(later, counter, gate)
    del counter
    gc.collect()
    gate.open()
    assert found.result() == 5
    del found
    assert until(lambda: not alive(pid), PATIENCE)


def test_pickled_handles_are_kept_until_lazyflow_is_shut_down(processes: str) -> None:
    counter = Counter()
    pid = counter.pid().result()
    data = pickle.dumps(counter)
    del counter
    gc.collect()
    assert pickle.loads(data).add(1).result() == 1
    gc.collect()
    assert alive(pid)
    lazyflow.shutdown()
    assert until(lambda: not alive(pid), PATIENCE)
    assert exchange.address is None
    error = pickle.loads(data).add(1).exception()
    assert isinstance(error, WorkerDied)
    assert "Counter.add can't be run: the actor Counter has ended" in str(error)


def test_a_call_of_a_dead_actor_says_so(separate: str) -> None:
    counter, node = Counter(), Node()
    node.meet(kept=counter).result()
    os.kill(counter.pid().result(), signal.SIGKILL)
    with pytest.raises(WorkerDied, match=r"the actor Counter \(process \d+\)"):
        for _ in range(2):  # the first one may have been sent
            node.ask("kept", "add", 1).result()
    with pytest.raises(WorkerDied, match=r"Counter.add can't be run: the actor Counter"):
        delayed(add_by)(counter).compute()


def test_a_restarted_actor_is_called_by_old_handles(separate: str) -> None:
    counter = Counter.options(restarts=1, checkpoint="get_state")(5)
    node = Node(kept=counter)
    assert node.ask("kept", "add", 1).result() == 6
    with pytest.raises(WorkerDied):
        node.ask("kept", "die", "SIGKILL").result()
    assert node.ask("kept", "add", 1).result() == 7


# -- circles --------------------------------------------------------------------------------


def circle(count: int, cls: Any = Node) -> list[Any]:
    nodes = [cls() for _ in range(count)]
    for k, node in enumerate(nodes):
        node.meet(next=nodes[(k + 1) % count]).result()
    return nodes


@pytest.mark.parametrize("count", [1, 2, 3])
def test_actors_that_wait_in_a_circle_are_named(scheduled: str, count: int) -> None:
    nodes = circle(count)
    assert nodes[0].bounce("next", count - 1).result() == count - 1
    found = nodes[0].bounce("next", count + 2).exception(timeout=PATIENCE)
    assert isinstance(found, CycleError)
    assert str(found).startswith("calls of actors wait for each other in a circle: Node waits for")
    assert str(found).count("waits for Node.bounce") == count
    for node in nodes:  # those that had been called meanwhile come to their ends
        node.meet().result()
    assert nodes[0].bounce("next", count - 1).result() == count - 1


def test_calls_on_sync_may_go_in_circles() -> None:
    with config.set(scheduler="sync"):
        assert circle(3)[0].bounce("next", 9).result() == 9


def test_async_methods_may_go_in_circles(scheduler: str) -> None:
    one, other = Bouncer(), Bouncer()
    one.meet(other).result()
    other.meet(one).result()
    assert one.bounce(20).result(timeout=PATIENCE) == 20


def test_many_that_wait_for_one_are_no_circle(scheduled: str) -> None:
    gate, last = Gate(), Counter()
    nodes = [Node(last=last) for _ in range(3)]
    calls = [node.ask("last", "wait_at", gate) for node in nodes]
    chained = Node().asked(nodes[0], "asked", last, "add", 1)
    gate.open()
    assert [call.result() for call in calls] == ["passed"] * 3
    assert chained.result() == 1


# -- names ----------------------------------------------------------------------------------


def test_tasks_and_actors_find_actors_by_name(scheduler: str) -> None:
    name = f"the one of {scheduler}"
    counter = actor(Plain, name=name)(10)
    assert delayed(lambda: lazyflow.get_actor(name).add(1).result())().compute() == 11
    assert Node().named(name).result() == 12
    with pytest.raises(ValueError, match="no living actor named 'another'"):
        Node().named("another").result()
    assert counter.add(0).result() == 12


# -- nothing is left ------------------------------------------------------------------------


def test_an_exchange_refuses_whoever_does_not_know_its_key(processes: str) -> None:
    from lazyflow.schedulers.actors.handles import wire

    counter = Counter()
    counter.pid().result()
    address = exchange.open()
    with pytest.raises(OSError, match="key"):
        wire.connected(address._replace(key=bytes(32)))
    assert delayed(add_by)(counter, 1).compute() == 1


def test_actors_of_a_pool_end_with_their_handles(processes: str) -> None:
    nodes = circle(3)
    assert delayed(lambda node: node.bounce("next", 2).result())(nodes[0]).compute() == 2
    for node in nodes:
        node.leave().result()
    del node, nodes
    gc.collect()

    def actors() -> list[Any]:
        return [w for w in info()["processes"]["workers"] if "actor" in w]

    assert until(lambda: not actors(), PATIENCE), actors()


TO_A_PORT = """
import pickle
from lazyflow.schedulers.core.base import hosts_for_workers
from lazyflow.schedulers.actors.handles import wire
import lazyflow

class Adder:
    def __init__(self): self.n = 0
    def add(self, k):
        self.n += k
        return self.n

def add(handle, k):
    wire.HAS_NAMES = False  # as on another machine
    return pickle.loads(handle).add(k).result()

if __name__ == "__main__":
    hosts_for_workers["127.0.0.1"] = None
    with lazyflow.config.set(scheduler="processes", num_workers=2):
        adder = lazyflow.actor(Adder)()
        handle = pickle.dumps(adder)
        print([lazyflow.submit(add, handle, k).result() for k in (1, 2, 3)])
"""


def test_handles_on_other_machines_use_a_port(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(TO_A_PORT)
    out = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])})
    assert (out.returncode, out.stdout, out.stderr) == (0, "[1, 3, 6]\n", "")
