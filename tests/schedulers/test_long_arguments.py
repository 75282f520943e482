"""Long containers that many tasks are given: there once, and each task edits a copy of its own."""

import os
from collections import defaultdict

import pytest
from engine_schedulers import ELSEWHERE, SCHEDULERS

import lazyflow
from lazyflow import compute, delayed

LENGTH = 20_000  # items, from which on the copy of a container is shared

CONTAINERS = {
    "list": lambda: [f"word {i}" for i in range(LENGTH)],
    "dict": lambda: {i: f"word {i}" for i in range(LENGTH)},
}

_kept = []


def some_words(words, k):
    """Return what tells whether words are the same objects as those of other tasks here."""
    _kept.append(words)  # so that no other has their addresses
    return os.getpid(), [id(words[i]) for i in (0, LENGTH // 2, LENGTH - 1)]


@pytest.mark.parametrize("scheduler", ELSEWHERE)
@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_a_worker_has_the_items_once(make, scheduler):
    words, objects = make(), defaultdict(set)
    with lazyflow.config.set(scheduler=scheduler):
        for pid, ids in compute(*[delayed(some_words)(words, k) for k in range(12)]):
            objects[pid].add(tuple(ids))
    assert [len(each) for each in objects.values()] == [1] * len(objects)


def edited(items, k):
    if isinstance(items, dict):
        items[k] = "mine"
        return len(items), items[k], items[k + 1]
    items.append(k)
    return len(items), items[-1], items[0]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_an_edit_is_private(make, scheduler):
    words = make()
    with lazyflow.config.set(scheduler=scheduler):
        found = compute(*[delayed(edited)(words, k) for k in range(6)])
    expected = [edited(words.copy(), k) for k in range(6)]
    assert list(found) == expected
    assert words == make()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_what_changes_between_two_calls_is_seen(scheduler):
    words, rows = CONTAINERS["list"](), [[i] for i in range(LENGTH)]
    first = delayed(lambda *given: [each[0] for each in given])
    with lazyflow.config.set(scheduler=scheduler):
        before = first(words, rows)
        words[0] = "new"
        assert compute(before, first(words, rows)) == (["word 0", [0]], ["new", [0]])
        rows[0].append(1)  # the list has the same items as before
        assert first(words, rows).compute() == ["new", [0, 1]]
