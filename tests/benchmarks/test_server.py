"""A server of all kinds of requests: it is good, and whatever grows, is wrong or hangs is found."""

from threading import Event
from types import SimpleNamespace

import pytest
from weaker_systems import kills_by_pidfd

from benchmarks import server

pytestmark = kills_by_pidfd

FEW = ["--threads", "4", "--seconds-between", "0", "--patience", "20"]


@pytest.fixture
def one_kind(monkeypatch):
    """Return what lets the server have one kind of request only."""
    monkeypatch.setattr(server, "SCHEDULERS", ("sync",) * 3)

    def let(request):
        monkeypatch.setattr(server, "KINDS", {"mine": server.Kind(request)})

    return let


def test_requests_of_every_kind_leave_nothing(capfd):
    assert server.main([*FEW, "--minutes", "0.1"]) == 0
    said = capfd.readouterr().out
    assert "of 16 kinds in 4 threads" in said
    assert "grown: nothing" in said
    assert "left after shutdown: nothing" in said


def test_objects_that_are_kept_are_told(one_kind, capfd):
    kept = []
    one_kind(lambda i: kept.extend(SimpleNamespace() for _ in range(10)))
    assert server.main([*FEW, "--minutes", "0.02"]) == 1
    assert "more of types.SimpleNamespace" in capfd.readouterr().out


def test_a_wrong_answer_and_an_error_are_told(one_kind, capfd):
    def wrong(i):
        assert i == 1, "another answer"

    one_kind(wrong)
    assert server.main([*FEW, "--minutes", "0.001"]) == 1
    assert "mine on sync: Traceback" in (said := capfd.readouterr().err)
    assert "another answer" in said


def test_a_request_that_hangs_is_told(one_kind, capfd):
    gate = Event()
    one_kind(lambda i: i == 1 or gate.wait())
    try:
        assert server.main([*FEW[:-1], "0.5", "--minutes", "0.001"]) == 1
        assert "4 requests hung" in capfd.readouterr().err
    finally:
        gate.set()


def test_the_table_of_growth(capfd):
    assert server.main(["--growth", "5", "--on", "sync", "--kinds", "callback", "error"]) == 0
    head, columns, *rows = capfd.readouterr().out.splitlines()
    assert head == "kB that 1,000 requests leave in the program and its workers, ours / dask"
    assert columns.split() == ["sync"]
    assert [row.split()[0] for row in rows] == ["callback", "error"]
    assert rows[0].endswith("/ -")
