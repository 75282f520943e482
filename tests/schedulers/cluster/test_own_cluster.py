"""The cluster that ``scheduler="distributed"`` starts takes work from its program alone."""

import asyncio
import subprocess
import sys

import pytest

distributed = pytest.importorskip("distributed", reason="distributed is not installed")
psutil = pytest.importorskip("psutil", reason="psutil is not installed")

PROGRAM = """
import logging, sys
import lazyflow

class Told(logging.Handler):
    def emit(self, record):
        print(record.getMessage(), flush=True)

if __name__ == "__main__":
    logging.getLogger("lazyflow").addHandler(Told())
    logging.getLogger("lazyflow").setLevel("INFO")
    with lazyflow.config.set(scheduler="distributed", num_workers=1):
        assert lazyflow.delayed(abs)(-1).compute() == 1
        sys.stdin.read()
        assert lazyflow.delayed(abs)(-2).compute() == 2
"""


@pytest.fixture
def running(tmp_path):
    """A program that has started the cluster, and goes on with it when its input ends."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def listening(pid):
    """Return the ports on which a process and those that it has started listen."""
    program = psutil.Process(pid)
    return {
        each.laddr
        for process in [program, *program.children(recursive=True)]
        for each in process.net_connections()
        if each.status == psutil.CONN_LISTEN
    }


async def answer(address, **options):
    """Return what a scheduler, nanny or worker answers to a stranger, or why none comes."""
    try:
        comm = await asyncio.wait_for(distributed.comm.connect(address, 2, **options), 3)
        await asyncio.wait_for(comm.write({"op": "identity", "reply": True}), 2)
        return await asyncio.wait_for(comm.read(), 2)
    except (TimeoutError, OSError, distributed.comm.CommClosedError) as error:
        return error


async def answers(ports):
    stranger = distributed.Security.temporary().get_connection_args("client")
    ways = [("tcp", {}), ("tls", stranger)]
    return await asyncio.gather(*(
        answer(f"{scheme}://127.0.0.1:{port}", **options)
        for port in ports for scheme, options in ways
    ))


def test_nobody_else_can_use_it(running):
    assert running.stdout.readline().startswith(
        "lazyflow has started a cluster of 1 worker at tls://127.0.0.1:")
    ports = listening(running.pid)
    assert len(ports) >= 4  # the scheduler, a nanny, a worker and pages
    assert {host for host, _ in ports} == {"127.0.0.1"}
    found = asyncio.run(answers([port for _, port in ports]))
    assert [each for each in found if not isinstance(each, Exception)] == []
    running.communicate(timeout=60)
    assert running.returncode == 0  # its own work goes on


def test_without_the_package_for_keys_it_says_that_it_is_open(tmp_path):
    path = tmp_path / "program.py"
    path.write_text('import sys\nsys.modules["cryptography"] = None\n' + PROGRAM)
    done = subprocess.run(
        [sys.executable, str(path)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert "every user of this machine can run code there as you" in done.stderr
    assert "pip install cryptography" in done.stderr
