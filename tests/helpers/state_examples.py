"""Worker states that tests of them share."""

import os
import threading

from lazyflow import worker_state

#: Tasks of each scheduler use this many workers at most, of one thread each on engines.
WORKERS = 2
IN_THIS_PROCESS = ("sync", "threads")


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
