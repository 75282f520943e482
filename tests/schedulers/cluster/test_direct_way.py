"""Large values between a client and workers that it can or can't connect to.

The scheduler and the workers are processes of their own. A worker is announced under the address
of a gateway in this process, which lets all others pass and does to this client what it is told.
"""

import os
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest

import lazyflow
from lazyflow import compute, delayed, persist
from lazyflow.schedulers.registry import scheduler_named

numpy = pytest.importorskip("numpy")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")
psutil = pytest.importorskip("psutil")

# A busy machine takes longer to start a worker than callers wait before they are warned.
pytestmark = pytest.mark.filterwarnings("ignore:the cluster at .* has had no worker")

LARGE = 1_000_000  # numbers of 8 bytes


class Gateway:
    """Passes connections on to a worker; `heeds` gets those of this process first.

    It returns whether the connection is passed on, and is called again for each piece of data on
    its way to this process, with the bytes so far.
    """

    def __init__(self, heeds):
        self.heeds = heeds
        self.callers = 0  # connections of this process
        self._open = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self.inside = free_port()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with suppress(OSError):  # closed
            while True:
                outer, peer = self._listener.accept()
                self._open.append(outer)
                threading.Thread(target=self._pass, args=(outer, peer[1]), daemon=True).start()

    def _pass(self, outer, port):
        mine = psutil.Process().net_connections(kind="tcp4")
        is_mine = any(each.laddr.port == port for each in mine)
        self.callers += is_mine
        if is_mine and not self.heeds(0, outer):
            return
        try:
            inner = socket.create_connection(("127.0.0.1", self.inside))
        except OSError:  # the worker was killed
            return outer.close()
        self._open.append(inner)
        threading.Thread(target=self._pump, args=(outer, inner, False), daemon=True).start()
        self._pump(inner, outer, is_mine)

    def _pump(self, source, target, is_heeded):
        done = 0
        with suppress(OSError):
            while data := source.recv(1 << 16):
                done += len(data)
                if is_heeded:
                    self.heeds(done, target)
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self):
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextmanager
def program(*arguments):
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments, "--no-dashboard"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def worker(address, *options):
    with program("distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny",
                 *options) as process:
        yield process


@pytest.fixture(scope="module")
def cluster():
    address = f"tcp://127.0.0.1:{free_port()}"
    with program("distributed.cli.dask_scheduler", "--host", "127.0.0.1",
                 "--port", address.rpartition(":")[2]):
        yield address


@pytest.fixture
def address(cluster):
    yield cluster
    scheduler_named(cluster).shutdown()  # the next client knows nothing of what this one has met


@contextmanager
def gated_worker(address, heeds):
    with ExitStack() as stack:
        gateway = Gateway(heeds)
        stack.callback(gateway.close)
        process = stack.enter_context(worker(
            address, "--listen-address", f"tcp://127.0.0.1:{gateway.inside}",
            "--contact-address", gateway.address))
        yield gateway, process


def numbers(i):
    return numpy.arange(i, i + LARGE, dtype=float)


class Keeper:
    def __init__(self):
        self.state = numpy.zeros(LARGE)

    def add(self, x):
        self.state += x
        return self.state


def is_mine_to_write(array):
    array += 1
    return array.flags.aligned


def silent(done, connection):
    return False


def refusing(done, connection):
    connection.close()
    return False


@pytest.mark.parametrize("heeds", [silent, refusing])
def test_large_values_come_although_the_client_can_not_reach_the_workers(address, heeds):
    with gated_worker(address, heeds) as (gateway, _):
        for i in range(3):
            (found,) = compute(delayed(numbers)(i), scheduler=address, timeout=60)
            assert found[0] == i and found[-1] == i + LARGE - 1
            assert is_mine_to_write(found)
        first = gateway.callers
        put = lazyflow.put(numbers(1), scheduler=address)
        many = [delayed(numbers)(i) for i in range(3)]
        found, least = compute(many, delayed(numpy.min)(put), scheduler=address, timeout=60)
        assert [x[0] for x in found] == [0, 1, 2] and least == 1
        actor = lazyflow.actor(Keeper, scheduler=address)()
        found = actor.add(numbers(0)).result(timeout=60)
        assert found[-1] == LARGE - 1 and is_mine_to_write(found)
        assert actor.add(numbers(0)).result(timeout=60)[-1] == 2 * (LARGE - 1)
        if heeds is silent:  # it is asked once, and not waited for again
            assert gateway.callers == first == 1


def test_a_worker_that_is_killed_while_it_sends_a_result(address):
    started = []

    def kills(done, connection):
        if done > LARGE:
            started[0].kill()
        return True

    with gated_worker(address, kills) as (_, process), ExitStack() as stack:
        started.append(process)
        kept = persist(delayed(numbers)(3), scheduler=address)
        lazyflow.wait(kept, timeout=60)
        stack.enter_context(worker(address))
        (found,) = compute(*kept, timeout=60)
        assert found[0] == 3 and found[-1] == LARGE + 2
        assert process.wait(timeout=60) != 0
