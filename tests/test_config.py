"""Settings: who wins, threads that come and go in any order, the environment, what is refused."""

import asyncio
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazyflow import compute, config, delayed

KEY = "max_runs_ahead"
DEFAULT = 16


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before, layers = dict(config._process), config._layers[:]
    config._layers.clear()  # of other tests
    yield
    config._process.update(before)
    config._layers[:] = layers


def test_block_before_process_before_default() -> None:
    assert config.get(KEY) == DEFAULT
    config.set(max_runs_ahead=5)
    assert config.get(KEY) == 5
    with config.set(max_runs_ahead=7):
        assert config.get(KEY) == 7
        config.set(max_runs_ahead=6)
        assert config.get(KEY) == 7
        with config.set({"max_runs_ahead": 8}, num_workers=2):
            assert (config.get(KEY), config.get("num_workers")) == (8, 2)
        assert config.get(KEY) == 7
    assert config.get(KEY) == 6


def test_a_block_is_left_also_by_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), config.set(max_runs_ahead=3):
        raise ZeroDivisionError
    assert config.get(KEY) == DEFAULT


def test_one_setting_entered_inside_itself_and_again() -> None:
    setting = config.set(max_runs_ahead=3)
    with setting:
        with setting:
            assert config.get(KEY) == 3
        assert config.get(KEY) == 3
    assert config.get(KEY) == DEFAULT
    with setting:
        assert config.get(KEY) == 3
    assert config.get(KEY) == DEFAULT


@pytest.mark.parametrize("look", [lambda _: config.get(KEY), lambda _: config.values()[KEY], repr])
def test_an_object_that_is_kept_is_a_plain_call_once_its_thread_looks(look: Any) -> None:
    kept = config.set(max_runs_ahead=4)
    assert elsewhere() == DEFAULT
    look(kept)
    assert config.get(KEY) == elsewhere() == 4
    config.set(max_runs_ahead=5)
    assert repr(kept) == "<lazyflow.config.set(max_runs_ahead=4)>"
    del kept
    assert config.get(KEY) == elsewhere() == 5


def test_a_kept_object_that_is_entered_later_sets_its_block_alone() -> None:
    block = config.set(max_runs_ahead=4)
    assert config.get(KEY) == 4  # it may be meant
    config.set(max_runs_ahead=5, num_workers=2)
    with block:
        assert config.get(KEY) == 4
        assert elsewhere() == 5
    assert config.get(KEY) == elsewhere() == 5
    with block:
        assert config.get(KEY) == 4
    del block
    assert config.get(KEY) == elsewhere() == 5


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["plain", "keep", "look", "drop", "enter"]),
                          st.integers(0, 3)), max_size=30))
def test_the_latest_plain_call_wins(steps: list[tuple[str, int]]) -> None:
    """Objects that are kept and looked at are plain calls, unless they were entered."""
    base = next(_numbers)
    config.set(max_runs_ahead=base)
    order, kept = [base], {}
    for what, which in steps:
        number = next(_numbers)
        if what == "plain":
            config.set(max_runs_ahead=number)
            order.append(number)
        elif what == "keep":
            kept.pop(which, None)
            kept[which] = number, config.set(max_runs_ahead=number)
            order.append(number)
            config.get(KEY)
        elif what == "drop":
            kept.pop(which, None)
        elif what == "enter" and which in kept:
            own, block = kept[which]
            with block:
                assert config.get(KEY) == own
            order = [each for each in order if each != own]
            del block
        assert config.get(KEY) == order[-1]
        assert config.values()[KEY] == order[-1]
        assert len(config._layers) <= 2 * len(kept) + 1
    assert elsewhere() == order[-1]


_numbers = count(10**6)


def test_what_is_refused_sets_nothing() -> None:
    with pytest.raises(ValueError, match="max_runs_ahead must be a whole number"):
        config.set(num_workers=3, max_runs_ahead="x")
    assert config.get("num_workers") is None


def elsewhere() -> Any:
    """Return what another thread gets."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(config.get, KEY).result()


def test_threads_do_not_see_each_others_blocks() -> None:
    """Entered and left in an order that a stack could not restore."""
    a_in, b_in, a_out = threading.Event(), threading.Event(), threading.Event()
    seen: dict[str, list[Any]] = {"a": [], "b": []}

    def a() -> None:
        with config.set(max_runs_ahead=101):
            a_in.set()
            b_in.wait(20)
            seen["a"].append(config.get(KEY))
        seen["a"].append(config.get(KEY))
        a_out.set()

    def b() -> None:
        a_in.wait(20)
        seen["b"].append(config.get(KEY))
        with config.set(max_runs_ahead=102):
            b_in.set()
            a_out.wait(20)
            seen["b"].append(config.get(KEY))
        seen["b"].append(config.get(KEY))

    users = [threading.Thread(target=f) for f in (a, b)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert seen == {"a": [101, DEFAULT], "b": [DEFAULT, 102, DEFAULT]}


class Blocks:
    """A thread's random blocks; each number that it sets in one is its own."""

    def __init__(self, seed: int, wrong: list[Any]) -> None:
        self.random = random.Random(seed)
        self.numbers = count(1000 * (seed + 1))
        self.wrong = wrong

    def __call__(self) -> None:
        for _ in range(40):
            self.one(None)

    def one(self, outer: int | None) -> None:
        number = next(self.numbers)
        made = config.set(max_runs_ahead=number)
        if self.random.random() < 0.3:
            with ExitStack() as stack:
                stack.enter_context(made)
                del made
                self.inside(number)
        else:
            with made:
                self.inside(number)
        self.check(outer)

    def inside(self, number: int) -> None:
        self.check(number)
        while self.random.random() < 0.3:
            self.one(number)

    def check(self, number: int | None) -> None:
        found = compute(delayed(config.get)(KEY))[0] if self.random.random() < 0.1 else None
        for seen in (config.get(KEY), found):
            if seen is not None and (seen > 999 if number is None else seen != number):
                self.wrong.append((number, seen))


@settings(max_examples=10, deadline=None)
@given(seeds=st.lists(st.integers(0, 10**6), min_size=8, max_size=8, unique=True))
def test_blocks_are_seen_by_nobody_else_and_plain_calls_by_all(seeds: list[int]) -> None:
    """Eight threads have blocks at random; this one looks, and sets numbers below 1000."""
    wrong: list[Any] = []
    config.set(max_runs_ahead=1)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            blocks = [pool.submit(Blocks(seed, wrong)) for seed in seeds]
            plain = 1
            while not all(each.done() for each in blocks):
                plain = plain % 999 + 1
                config.set(max_runs_ahead=plain)
                seen = {config.get(KEY) for _ in range(100)}
                wrong += [(plain, each) for each in seen - {plain}]
            for each in blocks:
                each.result()
    finally:
        sys.setswitchinterval(switch)
    assert not wrong
    assert config.get(KEY) == elsewhere() == plain


def test_tasks_of_an_event_loop_do_not_see_each_others_blocks() -> None:
    async def one(value: int) -> list[int]:
        seen = []
        with config.set(max_runs_ahead=value):
            for _ in range(3):
                await asyncio.sleep(0)
                seen.append(config.get(KEY))
        return seen

    async def both() -> list[list[int]]:
        return await asyncio.gather(one(3), one(4))

    assert asyncio.run(both()) == [[3] * 3, [4] * 3]


def test_a_task_sees_the_block_it_was_computed_in_and_its_own_stay_with_it() -> None:
    def task() -> tuple[int, int]:
        before = config.get(KEY)
        with config.set(max_runs_ahead=before + 1):
            return before, compute(delayed(config.get)(KEY))[0]

    with config.set(max_runs_ahead=40):
        assert compute(delayed(task)()) == ((40, 41),)
        assert config.get(KEY) == 40


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_workers": 0}, "num_workers must be a whole number, 1 or more; got 0"),
        ({"num_workers": True}, "num_workers must be a whole number, 1 or more; got True"),
        ({"max_runs_ahead": None}, "max_runs_ahead must be a whole number, 1 or more; got None"),
        ({"check_mutation": 1}, "check_mutation must be True or False; got 1"),
        ({"kernels": "numba"}, 'kernels must be "auto", "numpy" or "native"; got \'numba\''),
        ({"kernel_cache": True}, "kernel_cache must be a folder, None or False; got True"),
        ({"kernel_cache": "~/k"}, "kernel_cache must be an absolute path; got '~/k'"),
    ],
)
def test_wrong_values_are_refused_and_change_nothing(values: Any, message: str) -> None:
    before = config.values()
    with pytest.raises(ValueError, match=message):
        config.set(**values)
    assert config.values() == before


def test_unknown_keys_are_refused_with_the_nearest() -> None:
    with pytest.raises(KeyError, match="unknown config key 'num_worker'; did you mean 'num_work"):
        config.set(num_worker=1)
    with pytest.raises(KeyError, match="Known keys: scheduler, num_workers, check_mutation, max_"):
        config.get("colour")


def in_a_process(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environ}, capture_output=True,
        text=True, timeout=60,
    )


def test_the_environment_is_the_default() -> None:
    done = in_a_process(
        "from lazyflow import config as c\n"
        "keys = ['scheduler', 'num_workers', 'check_mutation', 'max_runs_ahead', 'kernels', "
        "'kernel_cache']\n"
        "print([c.get(k) for k in keys])\n"
        "c.set(num_workers=None)\n"
        "with c.set(scheduler='threads'): print(c.get('scheduler'), c.get('num_workers'))",
        LAZYFLOW_SCHEDULER="sync", LAZYFLOW_NUM_WORKERS="3", LAZYFLOW_CHECK_MUTATION="Yes",
        LAZYFLOW_MAX_RUNS_AHEAD="", LAZYFLOW_KERNELS="numpy", LAZYFLOW_KERNEL_CACHE="no",
    )
    expected = "['sync', 3, True, 16, 'numpy', False]\nthreads None\n"
    assert done.stdout == expected, done.stderr


@pytest.mark.parametrize(
    ("name", "text"), [("NUM_WORKERS", "many"), ("CHECK_MUTATION", "2"), ("NUM_WORKERS", "0"),
     ("KERNELS", "numba")]
)
def test_what_the_environment_says_has_to_make_sense(name: str, text: str) -> None:
    done = in_a_process("import lazyflow", **{f"LAZYFLOW_{name}": text})
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    says = f"ValueError: LAZYFLOW_{name} in the environment: {name.lower()} must be "
    assert last.startswith(says)
    assert last.endswith(f"; got {text!r}")


def test_the_configured_scheduler_is_used() -> None:
    def where() -> str:
        return threading.current_thread().name

    me = threading.current_thread().name
    with config.set(scheduler="sync"):
        assert compute(delayed(where)()) == (me,)
        assert compute(delayed(where)(), scheduler="threads") != (me,)
    assert compute(delayed(where)()) != (me,)
    with pytest.raises(ValueError, match="unknown scheduler 'threds'; did you mean 'threads'") as e:
        with config.set(scheduler="threds"):
            compute(delayed(where)())
    assert e.value.__notes__ == [
        "The scheduler came from lazyflow.config.set(scheduler=...) or LAZYFLOW_SCHEDULER."
    ]


def test_the_configured_number_of_workers_is_used() -> None:
    count = config.default_workers() + 1
    meeting = threading.Barrier(count, timeout=20)
    with config.set(num_workers=count):
        (places,) = compute([delayed(meeting.wait)() for _ in range(count)])
    assert sorted(places) == list(range(count))
