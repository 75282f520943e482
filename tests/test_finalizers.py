"""What happens when an object goes: never Python code in the thread that drops it."""

import _thread
import ast
import gc
import operator
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import lazyflow
from lazyflow import delayed, persist, worker_state
from lazyflow.finalizers import LastCall, WeakTable, wait_for_last_calls
from lazyflow.testing.signals import Gate

HERE = Path(lazyflow.__file__).parent
NOT_HERE = {
    "__del__", "finalize", "WeakKeyDictionary", "WeakMethod", "WeakSet", "WeakValueDictionary",
}


def fails():
    raise ValueError("no")


class Counter:
    def add(self):
        return 1


def failed_future():
    future = lazyflow.submit(fails)
    lazyflow.wait(future)
    return future


def actor():
    made = lazyflow.actor(Counter)()
    assert made.add().result() == 1
    return made


def cached_function():
    def called(x):
        return x + 1

    assert lazyflow.compute(delayed(called, pure=True)(1), scheduler="processes") == (2,)
    return called


def function_with_its_code():
    names = {}
    exec("def called(x): return x + 1", names)
    called = names.pop("called")
    called.__globals__.clear()
    assert lazyflow.compute(delayed(called)(1), scheduler="processes") == (2,)
    return called


def state():
    made = worker_state(dict)
    made.get()
    return made


def result_on_processes():
    (x,) = persist(delayed(np.ones)(300_000), scheduler="processes")
    lazyflow.wait(x)
    return x


def view_of_a_workers_memory():
    return delayed(np.ones)(300_000).compute(scheduler="processes")


def running(scheduler):
    begun, end = Gate(), Gate()
    GATES.extend((begun, end))  # a gate that goes with the value would run Python
    (x,) = persist(delayed(pass_through)(begun, end), scheduler=scheduler, num_workers=1)
    begun.wait(20)
    end.open()
    return x


def pass_through(begun, end):
    begun.open()
    return end.wait(20)


GATES = []
THINGS = {
    "a failed future": failed_future,
    "a pending value on threads": lambda: running("threads"),
    "a pending value on processes": lambda: running("processes"),
    "a result on processes": result_on_processes,
    "a view of a worker's memory": view_of_a_workers_memory,
    "an actor": actor,
    "a pool of actors": lambda: lazyflow.ActorPool([actor()]),
    "a function": cached_function,
    "a function of a cell, and its code": function_with_its_code,
    "a state": state,
}


@pytest.mark.parametrize("name", THINGS)
def test_a_ctrl_c_that_comes_while_an_object_goes_is_heard(name, monkeypatch):
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    things, is_heard = [THINGS[name]()], False
    gc.collect()
    try:
        # Both calls in one step of C: the signal is there when the object goes.
        list(map(operator.call, [_thread.interrupt_main, things.clear]))
    except KeyboardInterrupt:
        is_heard = True
    finally:
        signal.signal(signal.SIGINT, before)
    assert things == ignored == []
    assert is_heard
    on = {"scheduler": "processes" if "process" in name else "threads"}
    assert lazyflow.compute(delayed(abs)(-3), **on) == (3,)


def test_no_class_of_ours_runs_python_where_its_objects_go():
    found = []
    for path in HERE.rglob("*.py"):
        if (HERE / "testing") in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = {getattr(node, "name", None)} & {"__del__"}  # of a function
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "weakref":
                names.add(node.attr)
            elif isinstance(node, ast.ImportFrom) and node.module == "weakref":
                names.update(alias.name for alias in node.names)
            found += [f"{path.name}:{node.lineno} {name}" for name in names & NOT_HERE]
    assert found == []


class Thing:
    pass


def test_a_last_call_is_made_once_also_of_a_cycle_and_not_when_it_was_taken_back():
    calls, done = [], threading.Event()
    thing = Thing()
    thing.ends = [LastCall(calls.append, "a"), LastCall(int, "raises"), LastCall(calls.append, "b")]
    thing.ends[2].cancel()
    thing.itself = thing
    thing.last = LastCall(lambda _: done.set(), thing)  # it may lead to the object
    assert calls == [] and not done.is_set()
    del thing
    gc.collect()
    assert done.wait(20)
    wait_for_last_calls()
    assert calls == ["a"]


def test_an_object_with_the_place_of_another_is_not_in_the_table():
    table = WeakTable()
    for i in range(100):  # they have the same address again and again
        thing = Thing()
        assert table.get(thing) is None
        table[thing] = i
    assert len(list(table.living())) == 1 and len(table._entries) < 10
