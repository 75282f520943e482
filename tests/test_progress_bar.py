"""`ProgressBar`: counts what runs inside the block, whatever happens in it."""

import io
import sys

import pytest

from lazyflow import ProgressBar, compute, delayed


def shown(text):
    return text.getvalue().replace("\r", "\n").strip().splitlines()[-1]


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_it_ends_at_all_tasks(scheduler):
    text = io.StringIO()
    with ProgressBar("work", file=text):
        compute([delayed(abs)(i) for i in range(37)], scheduler=scheduler)
    assert shown(text).startswith("work: 100%")
    assert "37/37" in shown(text)


def test_outside_the_block_nothing_is_shown():
    text = io.StringIO()
    with ProgressBar(file=text):
        pass
    compute(delayed(abs)(1))
    assert text.getvalue() == ""


def test_nested_computes_share_a_bar():
    text = io.StringIO()
    outer = delayed(lambda i: compute([delayed(abs)(k) for k in range(4)])[0])
    with ProgressBar(file=text):
        compute([outer(i) for i in range(3)])
    assert "15/15" in shown(text)


def test_a_failing_run_closes_its_bar_and_the_next_has_its_own():
    text = io.StringIO()
    with ProgressBar(file=text):
        with pytest.raises(ZeroDivisionError):
            compute(delayed(lambda: 1 // 0)())
        compute([delayed(abs)(i) for i in range(5)])
    assert "5/5" in shown(text)


def test_a_quick_run_stays_silent_below_the_minimum():
    text = io.StringIO()
    with ProgressBar(file=text, minimum=60):
        compute(delayed(abs)(1))
    assert text.getvalue() == ""


def test_register_and_unregister():
    text = io.StringIO()
    bar = ProgressBar(file=text)
    bar.register()
    try:
        compute([delayed(abs)(i) for i in range(3)])
    finally:
        bar.unregister()
    assert "3/3" in shown(text)
    before = text.getvalue()
    compute(delayed(abs)(1))
    assert text.getvalue() == before


def test_without_tqdm_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ImportError, match=r'pip install "lazyflow\[progress\]"'):
        ProgressBar()
