"""`rerun`: the call that failed, with the inputs that it had, in the caller's thread."""

import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import lazyflow
from lazyflow import delayed

ELSEWHERE = pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])


class Broken(Exception):
    """Raised by tasks."""


def fail_with(*args, **kwargs):
    raise Broken(args, kwargs, threading.get_ident())


def failure(lazy, scheduler="threads"):
    with pytest.raises(Broken) as caught:
        lazy.compute(scheduler=scheduler)
    return caught.value


def again(error):
    """Return what the rerun raises."""
    with pytest.raises(Broken) as caught:
        lazyflow.rerun(error)
    return caught.value


@ELSEWHERE
def test_it_makes_the_call_with_its_arguments_in_this_thread(scheduler):
    error = failure(delayed(fail_with)(delayed(abs)(-1), 2, key=delayed(abs)(-3)), scheduler)
    args, kwargs, thread = again(error).args
    assert (args, kwargs) == ((1, 2), {"key": 3})
    assert thread == threading.get_ident()


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_inputs_are_those_of_the_run_and_not_computed_again(scheduler):
    made = []

    def source():
        made.append(1)
        return len(made)

    error = failure(delayed(fail_with)(delayed(source)()), scheduler)
    assert again(error).args[0] == again(error).args[0] == (1,)
    assert made == [1]


def test_what_the_call_edits_is_not_what_the_next_one_gets():
    def grow(items):
        items.append(0)
        raise Broken(list(items))

    error = failure(delayed(grow)(delayed(list)((1, 2))))
    assert again(error).args == again(error).args
    error = failure(delayed(grow, mutates=True)(delayed(list)((1, 2))))
    assert again(error).args == ([1, 2, 0],)


def test_an_iterator_that_was_used_up_is_made_again():
    def use_up(items):
        raise Broken(list(items))

    error = failure(delayed(use_up)(delayed(iter)([1, 2])))
    assert again(error).args == ([1, 2],)


def test_arrays_are_as_the_task_had_them():
    def edit(x):
        x[0] = 1

    with pytest.raises(ValueError, match="read-only") as caught:
        delayed(edit)(delayed(np.zeros)(3)).compute()
    with pytest.raises(ValueError, match="read-only"):
        lazyflow.rerun(caught.value)


def test_a_value_comes_back_when_it_does_not_fail_any_more():
    allowed = []

    def root(x):
        if not allowed:
            raise Broken
        return x**0.5

    error = failure(delayed(root)(4))
    allowed.append(True)
    assert lazyflow.rerun(error) == 2.0


def test_of_nested_computes_the_innermost_task_is_called():
    calls = []

    def inner(x):
        calls.append("inner")
        raise Broken(x)

    def outer():
        calls.append("outer")
        return delayed(inner)(5).compute()

    error = failure(delayed(outer)())
    calls.clear()
    assert again(error).args == (5,)
    assert calls == ["inner"]


def test_what_the_task_computes_runs_in_this_thread_too():
    threads = []

    def outer():
        threads.append(delayed(threading.get_ident)().compute())
        raise Broken

    error = failure(delayed(outer)())
    threads.clear()
    again(error)
    assert threads == [threading.get_ident()]


@ELSEWHERE
def test_a_trace_is_called_with_the_leaves_of_that_run(scheduler):
    run = lazyflow.trace(
        lambda x: delayed(fail_with)(delayed(abs)(x), x), scheduler=scheduler
    )
    for leaf in (-3, -4):
        with pytest.raises(Broken) as caught:
            run(leaf)
        assert again(caught.value).args[0] == (-leaf, leaf)


def test_errors_of_futures_and_collected_ones():
    future = lazyflow.submit(fail_with, 7)
    with pytest.raises(Broken) as caught:
        future.result()
    assert again(caught.value).args[0] == (7,)
    (error,) = lazyflow.compute(delayed(fail_with)(8), on_error="collect")
    assert again(error).args[0] == (8,)


def test_what_would_end_the_caller():
    def leave(x):
        raise SystemExit(x)

    with pytest.raises(lazyflow.RemoteTaskError) as caught:
        delayed(leave)(3).compute()
    with pytest.raises(SystemExit, match="3"):
        lazyflow.rerun(caught.value)


def test_others_are_refused_with_words():
    with pytest.raises(ValueError, match="this ValueError did not come from a task"):
        lazyflow.rerun(ValueError("mine"))
    error = pickle.loads(pickle.dumps(failure(delayed(fail_with)(1))))
    with pytest.raises(ValueError, match="did not come from a task.*Pass the exception object"):
        lazyflow.rerun(error)


def test_the_inputs_go_with_the_exception():
    class Large:
        pass

    references = []

    def make():
        large = Large()
        references.append(weakref.ref(large))
        return large

    error = failure(delayed(fail_with)(delayed(make)()))
    again(error)
    del error
    gc.collect()
    assert references[0]() is None


def test_an_exception_that_refuses_attributes_is_raised_as_it_is():
    class Slotted(Broken):
        def __setattr__(self, name, value):
            raise RuntimeError("no attributes")

    def bad():
        raise Slotted("words")

    assert failure(delayed(bad)()).args == ("words",)
