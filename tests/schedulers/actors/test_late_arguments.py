"""Calls whose arguments come late, of actors that have several calls under way at once."""

import gc
from typing import Any

import pytest
from actor_examples import Async, Signal, ThreadedSignal, after

from lazyflow import Cancelled, submit, wait
from lazyflow.testing.signals import Gate

PATIENCE = 20.0  # seconds

both = pytest.mark.parametrize("kind", [Signal, ThreadedSignal])


@both
def test_a_call_is_passed_by_others_while_it_waits_for_its_arguments(
    scheduled: str, kind: Any
) -> None:
    s = kind()
    late = s.record([s.wait()])
    early = [s.record(k) for k in range(5)]
    assert [f.result(PATIENCE) for f in early] == list(range(5))
    s.send().result(PATIENCE)
    assert late.result(PATIENCE) == ["sent"]
    kept = s.recorded().result(PATIENCE)
    assert sorted(kept[:5]) == list(range(5))
    assert kept[5:] == [["sent"]]


@both
def test_late_calls_run_after_the_handle_is_gone(scheduled: str, kind: Any) -> None:
    gate, s = Gate(), kind()
    late = s.record(submit(after, gate, "late"))
    later = s.record(late)
    s.send().result(PATIENCE)
    del s
    gc.collect()
    gate.open()
    assert later.result(PATIENCE) == "late"


@both
def test_late_calls_may_fail_and_be_given_up(scheduled: str, kind: Any) -> None:
    gate, s = Gate(), kind()
    given_up = s.record(submit(after, gate, 1))
    failed = s.record(submit(fails_after, gate))
    twice = submit(after, gate, 3)
    last = s.record([twice, twice])
    assert given_up.cancel()
    gate.open()
    with pytest.raises(ZeroDivisionError):
        failed.result(PATIENCE)
    assert last.result(PATIENCE) == [3, 3]
    with pytest.raises(Cancelled):
        given_up.result(PATIENCE)
    assert s.recorded().result(PATIENCE) == [[3, 3]]


def fails_after(gate: Any) -> None:
    gate.wait()
    1 / 0


def test_async_methods_are_awaited_side_by_side(scheduled: str) -> None:
    several = Async()
    entered = [several.enter(k) for k in range(10)]
    several.open()
    assert [f.result(PATIENCE) for f in entered] == list(range(10))
    assert several.plain(several.plain(3)).result(PATIENCE) == 3
    done, _ = wait([several.fail()], timeout=PATIENCE)
    assert isinstance(done[0].exception(), ValueError)
