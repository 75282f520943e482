"""Clusters of distributed as their users start them: `dask scheduler` and `dask worker`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from waiting import until

_TLS = """
openssl req -x509 -newkey rsa:2048 -nodes -keyout {0}/key.pem -out {0}/cert.pem -days 2
    -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1
"""


def certificate(folder: Path) -> dict[str, Any]:
    """Make a key with its own certificate; return the options of `distributed.Security`."""
    subprocess.run(_TLS.format(folder).split(), check=True, capture_output=True)
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    found: dict[str, Any] = {"require_encryption": True, "tls_ca_file": cert}
    for whose in ("client", "scheduler", "worker"):
        found |= {f"tls_{whose}_key": key, f"tls_{whose}_cert": cert}
    return found


class CommandLineCluster:
    """A scheduler and workers, each a process group of its own below `folder`.

    address
        Where the scheduler listens.
    workers
        The processes of ``dask worker``, by name; each is a nanny with a worker below it, or
        with ``--no-nanny`` the worker itself.
    """

    def __init__(self, folder: Path, tls: dict[str, Any] | None = None) -> None:
        self.folder = folder
        self._tls = tls
        self._started: list[subprocess.Popen[bytes]] = []
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        found = folder / "scheduler.json"
        protocol = "tls" if tls else "tcp"
        self.scheduler = self._start(
            "scheduler", "--host", f"{protocol}://127.0.0.1", "--port", "0", "--no-dashboard",
            "--scheduler-file", str(found))
        until(lambda: found.exists() and found.read_text().endswith("}"), 60)
        self.address = json.loads(found.read_text())["address"]

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        tls = [] if self._tls is None else [
            "--tls-ca-file", self._tls["tls_ca_file"], "--tls-cert", self._tls["tls_worker_cert"],
            "--tls-key", self._tls["tls_worker_key"]]
        path = os.pathsep.join([os.getcwd(), *filter(None, sys.path)])
        with open(self.folder / f"log-{len(self._started)}.txt", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", what, *tls, *options], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                env={**os.environ, "PYTHONPATH": path})
        self._started.append(process)
        return process

    def start_worker(self, name: str, *options: str) -> None:
        """Start a worker of one thread, unless the options say another number."""
        self.workers[name] = self._start(
            "worker", self.address, "--name", name, "--nthreads", "1", "--no-dashboard",
            "--local-directory", str(self.folder), *options)

    def processes(self) -> list[int]:
        """Return all processes that were started for this cluster and have not ended."""
        sessions = {process.pid for process in self._started}
        found = []
        for pid in psutil.pids():
            try:
                if os.getsid(pid) in sessions:
                    found.append(pid)
            except ProcessLookupError:
                pass
        return found

    def logs(self) -> str:
        """Return what the processes have written."""
        return "\n".join(log.read_text() for log in sorted(self.folder.glob("log-*.txt")))

    def close(self) -> None:
        """End all processes as a terminal does, then by force."""
        scheduler, *workers = self._started
        for processes in (workers, [scheduler]):  # without it workers would wait for it
            for process in processes:
                process.send_signal(signal.SIGINT)
            for process in processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(20)
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        for process in self._started:
            process.wait()


@contextmanager
def command_line_cluster(
    folder: Path, workers: int = 2, *options: str, tls: dict[str, Any] | None = None
) -> Iterator[CommandLineCluster]:
    """A cluster with workers `w0`, `w1` and so on, and its end."""
    cluster = CommandLineCluster(folder, tls)
    try:
        for i in range(workers):
            cluster.start_worker(f"w{i}", *options)
        yield cluster
    finally:
        cluster.close()
