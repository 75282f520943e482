"""Generators as arguments: lazily read where tasks share memory, in words refused elsewhere."""

import itertools
import weakref

import numpy as np
import pytest

from lazyflow import SerializationError, compute, config, delayed, submit

SHARING = ["sync", "threads"]
ALL = [*SHARING, "processes"]


class Counter:
    """An endless iterator's source that knows how many items it gave."""

    def __init__(self):
        self.given = 0

    def items(self):
        while True:
            self.given += 1
            yield self.given


def first(items, count=3):
    return list(itertools.islice(items, count))


FORMS = {
    "generator": lambda items: items,
    "map": lambda items: map(abs, items),
    "zip": lambda items: (x for x, in zip(items)),
    "filter": lambda items: filter(None, items),
    "enumerate": lambda items: (x for _, x in enumerate(items)),
}


@pytest.mark.parametrize("scheduler", SHARING)
@pytest.mark.parametrize("form", FORMS)
def test_an_endless_iterator_is_read_as_far_as_it_is_asked_for(form, scheduler):
    source = Counter()
    call = delayed(first)(FORMS[form](source.items()))
    assert call.compute(scheduler=scheduler) == [1, 2, 3]
    assert call.compute(scheduler=scheduler) == [1, 2, 3]
    assert source.given <= 1001
    assert delayed(lambda c: first(c["k"][0]))({"k": (FORMS[form](Counter().items()),)}).compute(
        scheduler=scheduler
    ) == [1, 2, 3]
    with config.set(scheduler=scheduler):
        assert submit(first, FORMS[form](Counter().items()), 2).result() == [1, 2]
    assert first(compute(FORMS[form](Counter().items()))[0]) == [1, 2, 3]


@pytest.mark.parametrize("form", FORMS)
def test_an_endless_iterator_is_refused_in_words_where_it_would_be_sent(form):
    call = delayed(first)(FORMS[form](Counter().items()))
    for _ in range(2):
        with pytest.raises(SerializationError, match=r"more than 16 MB of items, or no end.*list"):
            call.compute(scheduler="processes")


@pytest.mark.parametrize("scheduler", ALL)
@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001, 5000])
def test_what_fits_is_read_as_often_as_the_task_runs(count, scheduler):
    call = delayed(list)(i for i in range(count))
    for _ in range(3):
        assert call.compute(scheduler=scheduler) == list(range(count))


@pytest.mark.parametrize("scheduler", ALL)
@pytest.mark.parametrize("count", [3, 1000, 1500])
def test_lazy_values_in_generators_are_found(count, scheduler):
    add = delayed(lambda items: sum(x if type(x) is int else x[0] for x in items))
    assert add(delayed(abs)(-i) for i in range(count)).compute(scheduler=scheduler) == sum(
        range(count)
    )
    nested = add([delayed(abs)(-i)] for i in range(count))
    assert nested.compute(scheduler=scheduler) == sum(range(count))


def test_a_lazy_value_far_behind_plain_ones_is_an_error():
    items = itertools.chain(range(2000), [delayed(1)])
    with pytest.raises(TypeError, match=r"item 2000 .* is lazy.*list"):
        delayed(list)(x for x in items).compute()


def test_large_items_are_not_kept():
    gone = []
    most = 0

    def blocks():
        nonlocal most
        for k in range(60):
            block = np.full(1 << 17, float(k))  # 1 MB
            weakref.finalize(block, gone.append, k)
            most = max(most, k + 1 - len(gone))
            yield block
            del block

    total = delayed(lambda items: sum(float(x[0]) for x in items))
    call = total(blocks())
    assert call.compute() == sum(range(60))
    assert most < 25
    with pytest.raises(TypeError, match="used up by an earlier run of this task"):
        call.compute()


def test_an_error_of_the_generator_is_the_tasks():
    def broken():
        yield from range(3000)
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        delayed(sum)(broken()).compute()


def test_two_runs_at_once_read_one_generator():
    call = delayed(sum)(i for i in range(4000))
    futures = [submit(call) for _ in range(4)]
    assert [f.result() for f in futures] == [sum(range(4000))] * 4


@pytest.mark.parametrize("scheduler", ALL)
@pytest.mark.parametrize("function", [
    lambda: (x for x in "ab"), lambda: map(str, "ab"), lambda: iter(["a", "b"]),
])
def test_nout_takes_the_items_of_a_generator(function, scheduler):
    call = delayed(function, nout=2)
    a, b = call()
    assert compute(a, b, scheduler=scheduler) == ("a", "b")
    assert a.compute(scheduler=scheduler) == "a"
    assert call().compute(scheduler=scheduler) == ("a", "b")
    with config.set(scheduler=scheduler):
        assert [f.result() for f in submit(call)] == ["a", "b"]


@pytest.mark.parametrize("scheduler", ALL)
@pytest.mark.parametrize(("count", "words"), [(1, "returned 1"), (3, "returned 3")])
def test_nout_of_a_generator_with_another_number_of_items(count, words, scheduler):
    def some():
        yield from range(count) if count < 3 else itertools.count()

    call = delayed(some, nout=2)
    for wanted in (call(), call()[1]):
        with pytest.raises(ValueError, match=words):
            wanted.compute(scheduler=scheduler)
