"""Interrupt cells of a real Jupyter kernel at random moments, and see that none is lost.

A kernel runs cells that compute for ever; each is interrupted after a random time, as the stop
button of a notebook does it. A cell that goes on, or ends by anything but KeyboardInterrupt, an
exception that Python had to ignore, or a wrong value in the cell after it make the exit status 1.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from random import Random

SCHEDULERS = ("sync", "threads", "processes", "distributed")
CHECKOUT = Path(__file__).resolve().parent.parent

#: What cells repeat until they are interrupted: `on` names the scheduler, wrong values raise.
BODIES = {
    "compute": "assert compute(tree(64), **on) == (2016,)",
    "one task": "assert compute(delayed(abs)(-3), **on) == (3,)",
    "nested": "assert compute(delayed(lambda: tree(16).compute())(), **on) == (120,)",
    "array": "assert la.arange(4096, chunks=512).sum().compute(**on) == 8386560",
    "persist": "assert compute(tree(16) + persist(tree(32), **on)[0]) == (616,)",
    "wait": "assert len(wait(list(persist(*map(delayed(abs), range(20)), **on)))[0]) == 20",
    "map": "assert sum(f.result() for f in lazyflow.map(abs, range(20), **on)) == 190",
    "bar": "with ProgressBar(): assert compute(tree(64), **on) == (2016,)",
    "failing": "try: compute(delayed(divmod)(tree(8), 0), **on)\nexcept ZeroDivisionError: pass",
}

SETUP = """
import os, lazyflow, lazyflow.array as la
from lazyflow import ProgressBar, compute, delayed, persist, wait
on = dict(scheduler={scheduler!r}, num_workers=2)
def tree(n):
    return delayed(sum)([delayed(abs)(-i) for i in range(n)])
began = os.open({pipe!r}, os.O_WRONLY)
compute(tree(64), **on)
"""

CHECK = "assert compute(tree(64), **on) == (2016,), 'wrong'"


@dataclass
class Found:
    """What was counted; `trouble` says what was wrong, with the number of the interrupt.

    `unshown` are cells that an interrupt ended at the first instruction of a function, where Python
    3.11 knows of no line: IPython's own assertion fails when it draws the traceback.
    """

    interrupts: int = 0
    lost: int = 0
    ignored: int = 0
    wrong: int = 0
    hung: int = 0
    unshown: int = 0
    slowest: float = 0.0  # seconds from an interrupt to the end of its cell
    trouble: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.lost or self.ignored or self.wrong or self.hung)


class Kernel:
    """A Python kernel of its own, in which cells are run and interrupted."""

    def __init__(self, folder: str, setup: str) -> None:
        from jupyter_client.manager import KernelManager

        self._pipe = os.path.join(folder, "began")
        os.mkfifo(self._pipe)
        self._read = os.open(self._pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.printed = ""  # by the cells since `run` was last called
        self._manager = KernelManager(kernel_name="python3")
        search = [str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._manager.start_kernel(
            env={**os.environ, "PYTHONPATH": os.pathsep.join(search)}, cwd=folder
        )
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)
        self._setup = setup

    def __enter__(self) -> Kernel:
        found = self.run(self._setup.replace("{pipe!r}", repr(self._pipe)), 120)
        if found != "ok":
            raise RuntimeError(f"the kernel did not get ready: {found}\n{self.printed}")
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        os.close(self._read)

    def begin(self, code: str) -> str:
        """Have a cell run; return the name of its message."""
        self.printed = ""
        name: str = self._client.execute(code, store_history=False)
        return name

    def end(self, cell: str, patience: float) -> str:
        """Return how a cell ended: "ok", or its error; "" when it did not in so many seconds."""
        until, found = time.monotonic() + patience, "ok"
        while (left := until - time.monotonic()) > 0:
            try:
                message = self._client.get_iopub_msg(timeout=left)
            except Empty:
                break
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                self.printed += content["text"]
            if message["parent_header"].get("msg_id") != cell:
                continue
            if kind == "error":
                found = f"{content['ename']}: {content['evalue']}"
            elif kind == "status" and content["execution_state"] == "idle":
                return found
        return ""

    def run(self, code: str, patience: float) -> str:
        return self.end(self.begin(code), patience)

    def wait_until_begun(self, patience: float) -> bool:
        """Sleep until a cell writes to the pipe."""
        is_there = bool(select.select([self._read], [], [], patience)[0])
        return is_there and bool(os.read(self._read, 4096))

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()


class Soak:
    """Interrupts of one kernel, and what came of them."""

    def __init__(self, kernel: Kernel, seed: int, patience: float, longest: float) -> None:
        self.kernel = kernel
        self.random = Random(seed)
        self.patience = patience
        self.longest = longest
        self.found = Found()

    def note(self, kind: str, text: str) -> None:
        found = self.found
        setattr(found, kind, getattr(found, kind) + 1)
        found.trouble.append(f"interrupt {found.interrupts}, {text}")

    def one_interrupt(self) -> bool:
        """Run a cell, interrupt it, and check; False when the kernel is of no use any more."""
        kernel, found = self.kernel, self.found
        name = self.random.choice(list(BODIES))
        body = BODIES[name].replace("\n", "\n    ")
        cell = kernel.begin(f"os.write(began, b'1')\nwhile True:\n    {body}")
        if not kernel.wait_until_begun(self.patience):
            self.note("hung", f"{name}: the cell did not begin")
            return False
        time.sleep(self.random.uniform(0, self.longest))
        found.interrupts += 1
        ended = ""
        for _ in range(10):
            began = time.monotonic()
            kernel.interrupt()
            ended = kernel.end(cell, self.patience)
            if ended:
                break
            self.note("lost", f"{name}: the cell went on; {kernel.printed[-2000:]}")
        else:
            self.note("hung", f"{name}: no interrupt ends the cell")
            return False
        found.slowest = max(found.slowest, time.monotonic() - began)
        printed = kernel.printed
        if "KeyboardInterrupt" in printed and "isinstance(frame_info.lineno, int)" in printed:
            found.unshown += 1
        elif not ended.startswith("KeyboardInterrupt"):
            self.note("wrong", f"{name}: the cell ended by {ended}; {printed[-2000:]}")
        ended = kernel.run(CHECK, self.patience)
        printed += kernel.printed
        if "Exception ignored" in printed:
            self.note("ignored", f"{name}: {printed[-2000:]}")
        if ended != "ok":
            self.note("wrong" if ended else "hung", f"{name}: the next cell: {ended or 'no end'}")
        return bool(ended)


def options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks interrupts", description=(__doc__ or "").splitlines()[0]
    )
    add = parser.add_argument
    add("--count", type=int, default=50, metavar="N", help="how many cells are interrupted")
    add("--scheduler", choices=SCHEDULERS, default="threads")
    add("--seed", type=int, default=0, metavar="S", help="of the cells and the moments")
    add("--longest", type=float, default=0.2, metavar="T", help="seconds until an interrupt")
    add("--patience", type=float, default=5.0, metavar="T", help="seconds from it to the end")
    given = parser.parse_args(argv)
    if given.count < 1:
        parser.error(f"--count {given.count}: at least 1")
    if not hasattr(os, "mkfifo"):
        parser.error("kernels are interrupted by signals, and watched by a pipe: it needs POSIX")
    return given


def main(argv: Sequence[str]) -> int:
    """Print what was found; return 1 if anything of it is bad."""
    given = options(argv)
    start = time.monotonic()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        setup = SETUP.replace("{scheduler!r}", repr(given.scheduler))
        kernel = stack.enter_context(Kernel(folder, setup))
        soak = Soak(kernel, given.seed, given.patience, given.longest)
        while soak.found.interrupts < given.count and soak.one_interrupt():
            pass
    found = soak.found
    print(
        f"{found.interrupts:,} cells interrupted in {time.monotonic() - start:.0f} s on "
        f"{given.scheduler}, seed {given.seed}; slowest answer {found.slowest:.2f} s\n"
        f"lost {found.lost}, ignored {found.ignored}, wrong {found.wrong}, hung {found.hung}; "
        f"{found.unshown} tracebacks not shown by IPython"
    )
    for line in found.trouble[:20]:
        print(line, file=sys.stderr)
    print("good" if found.good else "NOT GOOD")
    return 0 if found.good else 1


