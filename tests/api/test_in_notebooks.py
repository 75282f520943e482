"""What a notebook shows and completes, and its cells: by a kernel of Jupyter."""

import os
import pathlib
import re
from collections import OrderedDict
from queue import Empty
from threading import Event
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import lazyflow
from lazyflow import ActorPool, actor, delayed, persist, put, submit, wait

CHECKOUT = pathlib.Path(lazyflow.__file__).parent.parent


# -- completion ------------------------------------------------------------------------------


def annotated(x) -> "OrderedDict[str, int]":
    return OrderedDict(x)


VALUES = {
    "of a value": (lambda: delayed(np.arange(3)), "argmax"),
    "of a class": (lambda: delayed(OrderedDict)(a=1), "move_to_end"),
    "of an annotation": (lambda: delayed(annotated)(()), "move_to_end"),
    "of a persisted value": (lambda: persist(delayed("ab".split)(), scheduler="sync")[0], "append"),
}


@pytest.mark.parametrize("case", VALUES)
def test_attributes_of_the_value_are_completed(case):
    make, name = VALUES[case]
    lazy = make()
    assert {name, "compute", "persist", "visualize"} <= set(dir(lazy))
    assert name not in dir(delayed(abs)(-1))
    assert getattr(lazy, name).key  # each name that is offered makes a task


def test_a_failed_value_is_completed_as_any_other():
    (lazy,) = persist(delayed(int)("three"))
    wait(lazy)
    assert "compute" in dir(lazy)
    with pytest.raises(ValueError, match="three"):
        lazy.compute()


def test_the_completion_of_ipython_offers_them():
    completer = pytest.importorskip("IPython.core.completer")
    names = completer.IPCompleter(
        namespace={"lazy": delayed(OrderedDict)(a=1)}, global_namespace={}, use_jedi=False)
    with completer.provisionalcompleter():
        found = [each.text for each in names.completions("lazy.move", len("lazy.move"))]
    assert found == [".move_to_end"]


# -- tables ------------------------------------------------------------------------------------


def rows(obj):
    """Return the title and the rows of the table that a notebook shows."""
    table = ET.fromstring(obj._repr_html_())
    cells = {row[0].text: row[1].text or "" for row in table.iter("tr")}
    return table.find("caption/b").text, cells


def test_tables_of_futures():
    event = Event()
    future = submit(event.wait)
    title, pending = rows(future)
    assert (title, pending["state"], "value" in pending) == ("Future", "pending", False)
    assert re.search(r"test_in_notebooks\.py:\d+ in test_tables_of_futures", pending["made at"])
    event.set()
    failed = submit(int, "<three>")
    wait([future, failed])
    assert rows(future)[1]["state"] == "finished"
    assert rows(put(np.zeros((2, 3))))[1]["value"] == "ndarray(2, 3) float64"
    assert rows(failed)[1]["error"] == "ValueError"
    assert "three" not in failed._repr_html_()  # pages show no values
    assert isinstance(failed.exception(), ValueError)


@actor
class Counter:
    def __init__(self):
        self.event = Event()

    def wait(self):
        return self.event.wait()

    def _hidden(self):
        return 1


def test_tables_of_actors_and_pools():
    counters = [Counter.options(scheduler="threads")() for _ in range(2)]
    title, shown = rows(counters[0])
    assert title == "Actor Counter"
    assert shown == {
        "on": "threads", "state": "alive", "pending calls of this process": "0", "methods": "wait",
    }
    pool = ActorPool(counters)
    assert rows(pool) == ("ActorPool", {
        "actors": "2", "free": "2", "ended": "0", "waiting items": "0"})
    event = Event()
    waits = actor(Waiter, scheduler="threads")
    pool = ActorPool([waits(event)])
    futures = [pool.submit(lambda a, x: a.wait(x), x) for x in range(3)]
    assert rows(pool)[1] == {"actors": "1", "free": "0", "ended": "0", "waiting items": "2"}
    assert repr(pool) == "<ActorPool: actors 1, free 0, ended 0, waiting items 2>"
    event.set()
    assert [f.result() for f in futures] == [0, 1, 2]


class Waiter:
    def __init__(self, event):
        self.event = event

    def wait(self, x):
        self.event.wait()
        return x

    def __deepcopy__(self, memo):
        return self


# -- cells of a kernel ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kernel():
    pytest.importorskip("ipykernel")
    manager = pytest.importorskip("jupyter_client.manager")
    km, client = manager.start_new_kernel(
        kernel_name="python3", env=os.environ | {"PYTHONPATH": str(CHECKOUT)})
    yield km, client
    client.stop_channels()
    km.shutdown_kernel(now=True)


def run(kernel, code, interrupt_at=None):
    """Run a cell; return its status and what it printed. Ctrl-C comes once it prints a text."""
    km, client = kernel
    sent = client.execute(code)
    text, status = "", ""
    while status != "idle":
        try:
            message = client.get_iopub_msg(timeout=60)
        except Empty:
            raise AssertionError(f"the cell hangs; it printed: {text}") from None
        if message["parent_header"].get("msg_id") != sent:
            continue
        content = message["content"]
        status = content.get("execution_state", "")
        text += content.get("text", "") + "".join(content.get("traceback", ()))
        if interrupt_at and interrupt_at in text:
            km.interrupt_kernel()
            interrupt_at = None
    while (reply := client.get_shell_msg(timeout=60))["parent_header"].get("msg_id") != sent:
        pass
    return reply["content"], text


SETUP = """
import os, sys, time, threading
import lazyflow
from lazyflow import delayed, compute, submit
lazyflow.config.set(scheduler={scheduler!r}, num_workers=2)

@delayed
def step(x, block):
    if block and x == 0:
        with open({path!r}, "w") as pipe:  # a named pipe: the cell below hears of it
            pipe.write("begun")
        {wait}
    return x + 1

def cell(block):
    if block:
        def tell():
            with open({path!r}) as pipe:
                print(pipe.read(), flush=True)
        threading.Thread(target=tell, daemon=True).start()
    return compute([step(step(i, block), False) for i in range(20)])[0]
"""
WAITS = {
    "threads": "gate.wait()",  # a thread can't be ended: its task goes on until the gate opens
    "processes": "time.sleep(1000)",  # a worker can
}


@pytest.mark.parametrize("scheduler", WAITS)
def test_a_cell_that_was_interrupted_starts_clean(kernel, scheduler, tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    code = SETUP.format(scheduler=scheduler, path=str(path), wait=WAITS[scheduler])
    assert run(kernel, code + "\ngate = threading.Event()")[0]["status"] == "ok"
    for _ in range(2):
        reply, _ = run(kernel, "result = cell(block=True)", interrupt_at="begun")
        assert reply["ename"] == "KeyboardInterrupt"
        reply, text = run(kernel, "print(cell(block=False) == [i + 2 for i in range(20)])")
        assert (reply["status"], text) == ("ok", "True\n")
    _, text = run(kernel, """
gate.set()
print([w["running"] for w in lazyflow.info().get("processes", {}).get("workers", [])])
print(sum(t.name.startswith("lazyflow") for t in threading.enumerate()) < 12)
""")
    assert set(text.splitlines()[0]) <= set("[None, ]")
    assert text.splitlines()[1] == "True"


def test_progress_is_shown_below_a_cell_that_is_timed(kernel):
    pytest.importorskip("tqdm")
    reply, text = run(kernel, """%%time
import sys
sys.modules["ipywidgets"] = None  # a bar of text
import lazyflow
with lazyflow.ProgressBar(minimum=0, file=sys.stderr):
    total = lazyflow.delayed(sum)([lazyflow.delayed(abs)(-i) for i in range(9)]).compute()
print(total)
""")
    assert reply["status"] == "ok"
    assert "10/10" in text
    assert "36\n" in text
    assert "Wall time" in text
