"""The live page: what it tells, whom it answers, what it survives."""

import gc
import http.client
import json
import logging
import os
import random
import re
import resource
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import closing, contextmanager, suppress
from urllib.parse import urlsplit

import numpy as np
import pytest
from waiting import FakeClock
from waiting import until as comes

import lazyflow
from lazyflow import compute, delayed, persist
from lazyflow.api.evaluate import always_observers
from lazyflow.diagnostics.dashboard.monitor import Monitor
from lazyflow.testing.signals import Barrier, Gate

pytest.importorskip("tornado")

LIMIT = 30  # seconds


@pytest.fixture
def page():
    with lazyflow.dashboard() as opened:
        yield opened


def parts(page):
    address = urlsplit(page.url)
    return address.hostname, address.port, address.path


def ask(page, path=None, method="GET", **headers):
    """Return status, headers and body of an answer; header names have _ for -."""
    host, port, root = parts(page)
    with closing(http.client.HTTPConnection(host, port, timeout=LIMIT)) as connection:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, root if path is None else path, headers=named)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


@contextmanager
def stream(page):
    """Give an iterator of what the page is told."""
    host, port, root = parts(page)
    with closing(http.client.HTTPConnection(host, port, timeout=LIMIT)) as connection:
        connection.request("GET", root + "events")
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == "text/event-stream"
        lines = iter(answer.readline, b"")
        yield (json.loads(line.removeprefix(b"data: ")) for line in lines if line.strip())


def progress(news):
    return {
        news["functions"][number]: tuple(rest[:4]) for number, *rest in news["progress"]
    }


def until(found, holds):
    for news in found:
        if holds(news):
            return news
    raise AssertionError("the stream ended")


# -- what it tells --------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_calls_and_progress_of_runs(page, scheduler):
    work = delayed(sum)([delayed(abs)(-i) for i in range(20)])
    with stream(page) as found:
        assert next(found)["runs"] == {"open": 0, "over": 0}
        assert compute(work, scheduler=scheduler) == (190,)
        calls = []
        for news in found:
            calls += news["calls"]
            if news["runs"]["over"]:
                break
    assert progress(news) == {"abs": (20, 0, 20, 0), "sum": (1, 0, 1, 0)}
    names = [news["functions"][number] for _, number, _, _ in calls]
    assert sorted(names) == ["abs"] * 20 + ["sum"]
    assert all(0 <= start <= end <= news["now"] for _, _, start, end in calls)
    assert {worker for worker, *_ in calls} <= set(range(len(news["workers"])))


def test_a_page_that_is_opened_late_has_what_ran_before(page):
    compute([delayed(abs)(-i) for i in range(5)])
    with stream(page) as found:
        news = until(found, lambda news: news["runs"]["over"])
        assert news["count"] == 5
        with stream(page) as other:
            assert len(next(other)["calls"]) == 5


def test_what_runs_now_and_what_failed(page):
    gate = Gate()

    def broken():
        raise OSError("disk")

    with stream(page) as found:
        (pending,) = persist(delayed(gate.wait, name="waiting")())
        news = until(found, lambda news: progress(news).get("waiting", (0,))[-1] == 1)
        assert progress(news) == {"waiting": (0, 0, 1, 1)}
        assert news["runs"] == {"open": 1, "over": 0}
        gate.open()
        pending.compute()
        with pytest.raises(OSError, match="disk"):
            compute(delayed(broken)())
        news = until(found, lambda news: news["runs"]["over"] >= 2 and not news["runs"]["open"])
    assert progress(news)["broken"] == (1, 1, 1, 0)


def test_what_was_cancelled_is_waited_for_no_more(page):
    gate = Gate()
    with stream(page) as found:
        with pytest.raises(lazyflow.TaskTimeout):
            compute([delayed(abs)(delayed(gate.wait)()) for _ in range(9)], timeout=0.01)
        gate.open()
        news = until(found, lambda news: news["runs"] == {"open": 0, "over": 1})
    assert progress(news)["abs"] == (0, 0, 0, 0)


def test_memory_of_workers(page):
    def holds_it(worker):
        _, _, shared, values = worker
        return shared >= 2_400_000 and values == 1

    with stream(page) as found:
        (kept,) = persist(delayed(np.ones)(300_000), scheduler="processes")
        assert kept.compute()[0] == 1
        # What tests before it kept may be there for a moment.
        news = until(found, lambda news: any(map(holds_it, news["memory"])))
    name, resident, *_ = next(filter(holds_it, news["memory"]))
    assert name.startswith("process ") and resident > 10_000_000


@pytest.fixture
def clock(monkeypatch):
    """The clock of what is recorded and of monitors."""
    made = FakeClock()
    for module in ("schedulers.core.observing", "diagnostics.profiling.recording"):
        monkeypatch.setattr(f"lazyflow.{module}.perf_counter", made)
    return made


def test_advice_on_what_ran(clock, monkeypatch):
    monkeypatch.setattr("lazyflow.diagnostics.dashboard.server.Monitor", lambda: Monitor(clock))
    with lazyflow.dashboard() as page, stream(page) as found:
        for _ in range(5):
            compute(delayed(abs)(-1), scheduler="threads")
            clock.now += 1.5  # the caller's own work
        compute(delayed(abs)(-1), scheduler="threads")
        news = until(found, lambda news: news["advice"])
    place, seen, why, do = news["advice"][0]
    assert "test_dashboard.py:" in place and "no task ran" in seen
    assert why == "workers have nothing to do meanwhile" and "lazyflow.persist(x)" in do


def waits(gate, barrier):
    barrier.wait()
    gate.wait()


@pytest.mark.parametrize(
    ("own", "whole", "seen"),
    [
        (0.5, 1.0, "on threads, mostly waits, and used .* cores together, while cores were idle"),
        (0.0, 8.0, "as waits, and used 0 cores themselves; threads that they started used "),
    ],
    ids=["interpreter lock", "threads of BLAS"],
)
def test_advice_on_what_used_the_cpu(clock, monkeypatch, own, whole, seen):
    # What the machine counts, as it would be: of each thread, of the process, and of idle cores.
    for name, rate in {
        "lazyflow.schedulers.core.observing.thread_time": own,
        "lazyflow.diagnostics.profiling.recording.process_time": whole,
        "lazyflow.diagnostics.dashboard.monitor.idle_seconds": os.cpu_count(),
    }.items():
        monkeypatch.setattr(name, lambda rate=rate: rate * clock())
    monkeypatch.setattr("lazyflow.config.cpu_count", lambda: 2)
    monkeypatch.setattr("lazyflow.diagnostics.dashboard.monitor._MIN_SECONDS", 0)
    gate, barrier, monitor = Gate(), Barrier(3), Monitor(clock)
    always_observers.append(monitor)
    try:
        works = [delayed(waits, pure=False)(gate, barrier) for _ in range(2)]
        pending = persist(*works, scheduler="threads", num_workers=2)
        barrier.wait()
        monitor.take_in()
        clock.now += 1
        monitor.take_in()
        gate.open()
        compute(*pending)
    finally:
        always_observers.remove(monitor)
    (advice,) = monitor.news(0)["advice"]
    assert re.search(seen, advice[1]) and "test_dashboard.py:" in advice[0]


def test_advice_on_memory(monkeypatch):
    def fill():
        block = np.ones(8_000_000)
        monitor.take_in()
        return block.size

    monkeypatch.setattr("lazyflow.diagnostics.dashboard.monitor._MIN_SECONDS", 0)
    monkeypatch.setattr("lazyflow.diagnostics.profiling.recording._STEP", 0)
    monkeypatch.setattr(
        "lazyflow.diagnostics.dashboard.monitor.memory_limit", lambda usage: usage[-1].total
    )
    monitor = Monitor()
    always_observers.append(monitor)
    try:
        monitor.take_in()
        compute(delayed(fill)(), scheduler="threads")
    finally:
        always_observers.remove(monitor)
    (advice,) = monitor.news(0)["advice"]
    assert advice[1].startswith("memory reached ") and advice[1].endswith(" while fill ran")


@pytest.fixture
def monitor():
    """A monitor whose thread of the server never comes, but by `news`."""
    opened = Monitor()
    opened.open()
    yield opened
    opened.close()
    assert always_observers == []


def test_of_what_comes_too_fast_some_is_shown(monitor):
    assert not monitor.news(0)["left_out"]
    for turn in range(3):
        for _ in range(400):
            assert compute([delayed(abs)(-i) for i in range(3)]) == ([0, 1, 2],)
            assert len(monitor._raw) < 300
        news = monitor.news(0)
        assert news["left_out"]
        assert 10 * (turn + 1) < news["runs"]["over"] < 100 * (turn + 1)
    compute(delayed(len)("it watches again"))
    news = monitor.news(0)
    assert [done for number, done, *_ in news["progress"]
            if news["functions"][number] == "len"] == [1]


def test_calls_of_actors_that_come_too_fast(monitor):
    bag = lazyflow.actor(list, scheduler="threads")()
    for _ in range(1000):
        bag.append(1).result()
    assert len(monitor._raw) < 300
    assert monitor.news(0)["left_out"]


def test_of_a_large_run_calls_are_left_out(monitor, monkeypatch):
    monkeypatch.setattr("lazyflow.diagnostics.dashboard.monitor._MAX_EVENTS", 100)
    compute([delayed(abs)(-i) for i in range(1000)])
    assert len(monitor._raw) < 110
    news = monitor.news(0)
    ((_, done, *_),) = news["progress"]
    assert 90 < done < 110 and news["left_out"]


def test_one_that_rests_can_be_closed(monitor):
    for _ in range(400):
        compute(delayed(abs)(-1))
    monitor.close()
    monitor.news(0)
    assert always_observers == []


def test_values_are_not_kept_by_it(page):
    class Value:
        pass

    value = Value()
    gone = threading.Event()
    weakref.finalize(value, gone.set)
    compute(delayed(type)(value))
    del value
    assert comes(lambda: gc.collect() >= 0 and gone.is_set())


# -- whom it answers ------------------------------------------------------------------------


def test_the_page_and_its_headers(page):
    status, headers, body = ask(page)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"<title>lazyflow</title>" in body
    assert headers["Content-Security-Policy"].startswith("default-src 'self'; ")
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Server" not in headers
    _, _, root = parts(page)
    for name, start in (("page.js", b"// The page"), ("page.css", b":root")):
        status, _, body = ask(page, root + name)
        assert status == 200 and body.startswith(start)


def test_it_listens_on_loopback_only(page):
    _, port, _ = parts(page)
    with open("/proc/net/tcp") as file:
        listening = [line.split()[1] for line in file if line.split()[3] == "0A"]
    assert [each.split(":")[0] for each in listening if int(each[9:], 16) == port] == ["0100007F"]


FOREIGN = {
    "host": {"Host": "evil.example"},
    "port": {"Host": "127.0.0.1:1"},
    "origin": {"Origin": "http://evil.example"},
    "null origin": {"Origin": "null"},
    "site": {"Sec_Fetch_Site": "cross-site"},
    "same site": {"Sec_Fetch_Site": "same-site"},
    "no cors": {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("name", ["", "page.js", "events", "nothing"])
def test_who_comes_by_another_page_is_refused(page, headers, name):
    status, answered, body = ask(page, parts(page)[2] + name, **headers)
    assert (status, body) == (403, b"403: Forbidden\n")
    assert answered["X-Frame-Options"] == "DENY"


def test_a_link_on_another_page_opens_it(page):
    opened = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert ask(page, **opened)[0] == 200
    assert ask(page, parts(page)[2] + "events", **opened)[0] == 403


@pytest.mark.parametrize("path", ["/", "/guess/", "/guess/events", "/guess/page.js", "//events"])
def test_without_the_token_there_is_nothing(page, path):
    assert ask(page, path)[0] in (401, 404)
    assert b"<" not in ask(page, path)[2]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_there_is_only_get(page, method):
    assert ask(page, method=method)[0] in (403, 405)


@pytest.mark.parametrize("path", ["<script>1</script>", "..%2f..%2fetc%2fpasswd", "x" * 9000])
def test_what_is_asked_for_is_not_echoed(page, path):
    status, _, body = ask(page, parts(page)[2] + path)
    assert status in (401, 404)
    assert body in (b"404: Not Found\n", b"401: Unauthorized\n")


def test_two_pages_have_two_tokens(page):
    with lazyflow.dashboard() as other:
        assert parts(other)[2] != parts(page)[2] and len(parts(other)[2]) > 30
        assert ask(other, parts(page)[2])[0] == 401


def test_hostile_names_are_cut_and_sent_as_data(page):
    named = [delayed(abs, name=name)(-1) for name in ["a\0b\u202ec", "x" * 1_000_000]]
    compute(named)
    with stream(page) as found:
        news = until(found, lambda news: news["runs"]["over"])
    assert max(map(len, news["functions"])) == 80
    assert "a\ufffdb\ufffdc" in news["functions"]


# -- what it survives -----------------------------------------------------------------------


def garbage(rng):
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 2000))
    if kind == 1:
        return b"GET / HTTP/1.1\r\nHost: " + b"a" * 50_000 + b"\r\n\r\n"
    if kind == 2:
        return b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n" + b"x" * 99
    if kind == 3:
        upgrade = b"Upgrade: websocket\r\nConnection: Upgrade"
        return b"GET / HTTP/1.1\r\n" + upgrade + b"\r\n\r\n" + b"\x81\xff" * 9
    return b"GET /" + bytes(rng.choices(range(33, 255), k=40))  # and no more


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_malformed_requests_do_no_harm(page, count, caplog):
    caplog.set_level(logging.WARNING)
    host, port, _ = parts(page)
    rng = random.Random(0)
    slow = [socket.create_connection((host, port), LIMIT) for _ in range(count // 10)]
    for each in slow:
        each.send(b"GET / HTTP/1.1\r\n")
    for _ in range(count):
        with closing(socket.create_connection((host, port), LIMIT)) as connection:
            try:
                connection.sendall(garbage(rng))
            except OSError:  # it has heard enough
                pass
    assert compute(delayed(sum)([delayed(abs)(-i) for i in range(9)])) == (36,)
    assert ask(page)[0] == 200
    for each in slow:
        each.close()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


CROWD = """
import socket, sys
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(600)]
print("here", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_crowd_without_the_token_takes_few_descriptors(page):
    before = len(os.listdir("/proc/self/fd"))
    with stream(page) as found:  # a page that is open stays
        next(found)
        with subprocess.Popen(
            [sys.executable, "-c", CROWD, str(parts(page)[1])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as crowd:
            assert crowd.stdout.readline() == "here\n"
            assert ask(page)[0] == 200
            assert len(os.listdir("/proc/self/fd")) - before < 50
            compute(delayed(abs)(-1))
            until(found, lambda news: "abs" in news["functions"])
            crowd.stdin.close()


@pytest.mark.skipif(sys.platform != "linux", reason="fills the table of descriptors")
def test_without_descriptors_it_waits_and_says_so_once_a_second(page, caplog):
    caplog.set_level(logging.WARNING)
    host, port, _ = parts(page)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    filled = []

    def fill():
        with suppress(OSError):
            while True:
                filled.append(os.open(os.devnull, os.O_RDONLY))

    clients = [socket.socket() for _ in range(5)]
    highest = max(map(int, os.listdir("/proc/self/fd")))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, limits[1]))
        for client in clients:  # other threads may close something meanwhile
            fill()
            client.connect((host, port))
            if comes(lambda: caplog.records, 2.0):
                break
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for each in filled:
            os.close(each)
    client.settimeout(LIMIT)
    client.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert client.recv(99).startswith(b"HTTP/1.1 4")
    for each in clients:
        each.close()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) <= 3
    assert "the dashboard can't take a connection: [Errno 24] Too many open files" in said


def test_closing_ends_all_of_it():
    threads = threading.active_count()
    page = lazyflow.dashboard()
    with stream(page) as found:
        next(found)
        page.close()
        assert list(found) == []
    page.close()
    assert threading.active_count() == threads
    assert always_observers == []
    with pytest.raises(ConnectionRefusedError):
        ask(page)
    compute(delayed(abs)(-1))


def test_a_notebook_shows_it(page):
    assert f'<iframe src="{page.url}"' in page._repr_html_()
    assert repr(page) == f"<Dashboard at {page.url}>"
    page.close()
    assert repr(page) == "<Dashboard, closed>"
    assert page._repr_html_() == "&lt;Dashboard, closed&gt;"


def test_without_tornado_the_error_says_what_to_type(monkeypatch):
    import sys

    monkeypatch.delitem(vars(lazyflow), "dashboard", raising=False)  # as in a new program
    monkeypatch.delitem(sys.modules, "lazyflow.diagnostics.dashboard.server", raising=False)
    monkeypatch.setitem(sys.modules, "tornado.httpserver", None)
    with pytest.raises(ImportError, match=r'pip install "lazyflow\[diagnostics\]"'):
        lazyflow.dashboard()
    assert always_observers == []


def test_the_command_shows_work(capsys):
    from lazyflow.__main__ import main

    assert main(["dashboard", "--demo", "--rounds", "1", "--pause", "0"]) == 0
    assert "dashboard: http://127.0.0.1:" in capsys.readouterr().out
