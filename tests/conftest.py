"""How the suite runs: side by side where it runs whole, never against the clock."""

import gc
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("lazyflow.testing")  # its checks say their values, too

# A busy machine is no fault.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# Hundreds of programs and workers are started from here: where what is compiled may not be kept,
# each compiles lazyflow again, longer than many of the tests take.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Where streams are never buffered, nothing would tell that workers forget to flush them.
os.environ.pop("PYTHONUNBUFFERED", None)

# The suite takes all cores, and so would the threads of BLAS in each of its processes, which spin
# where they wait: a fit of 1,300 rows took ten times the CPU. In .ci/slow BLAS has threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_PER_CORE = 2  # tests side by side: many wait for other processes
_LARGE = ("sklearn.base", "scipy.stats", "distributed", "numba")  # the rest comes with them


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Let the whole default suite run in several processes; what is picked by hand in this one."""
    option = config.option
    is_open = getattr(option, "numprocesses", 0) is None and not hasattr(config, "workerinput")
    is_whole = config.args_source == config.ArgsSource.TESTPATHS and not (
        option.keyword or option.usepdb or option.collectonly or option.markexpr != "not slow"
    )
    if is_open and is_whole:
        option.numprocesses = _PER_CORE * len(os.sched_getaffinity(0))
        option.dist = "worksteal"


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Let the first of several processes write the bytecode that all others then read.

    To compile and to rewrite what there is takes 9 s of CPU, in a fresh clone in each of them.
    Meanwhile the others import what takes longest.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return (yield)
    is_written = Path(session.config.option.basetemp).parent / "bytecode_is_written"
    if worker["workerid"] == "gw0":
        try:
            return (yield)
        finally:
            is_written.touch()
    for name in _LARGE:
        with suppress(ImportError, Warning):  # what needs it tells
            import_module(name)
    end = monotonic() + 60
    while not is_written.exists() and monotonic() < end:
        sleep(0.1)
    return (yield)


def pytest_ignore_collect(collection_path, config):
    """Leave out one half of the files if LAZYFLOW_TESTS_HALF is 0 or 1: .ci/run has two Pythons.

    They are not imported either: collecting the whole suite takes 12 s of CPU in each process.
    """
    half = os.environ.get("LAZYFLOW_TESTS_HALF")
    if half is None or collection_path.suffix != ".py":
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    return crc32(path.encode()) % 2 != int(half) or None


def pytest_configure(config):
    """Let Hypothesis think nothing of what the loop of a cluster of ours draws meanwhile."""
    if os.environ.get("LAZYFLOW_SCHEDULER") == "distributed":
        config.addinivalue_line(
            "filterwarnings",
            "ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning",
        )


def freeze():
    """Take what is there out of every later collection: it comes to 0.3 s of each."""
    gc.collect()
    gc.freeze()


def pytest_collection_finish():
    freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Do so after each module, too: its imports and caches stay."""
    if nextitem is not None and nextitem.path != item.path:
        freeze()


@pytest.fixture(scope="session", autouse=True)
def signals():
    """What a shell has ignored (nohup, `&`) is not, here and in the programs that tests start."""
    ignored = [n for n in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_IGN]
    for number in ignored:
        is_ctrl_c = number == signal.SIGINT
        signal.signal(number, signal.default_int_handler if is_ctrl_c else signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session", autouse=True)
def checked_passes():
    """Check after each pass what this process computes: plans, and expressions of arrays.

    Not in the programs and workers that tests start, where it would take too long.
    """
    from lazyflow.graph.spec import check_always

    check_always()
    yield
    check_always(False)


@pytest.fixture
def here():
    """Compute in this thread, first block first: for tests of what functions do to this process.

    Tests of arrays name no scheduler else, so that .ci/slow has them run on every one.
    """
    from lazyflow import config

    with config.set(scheduler="sync"):
        yield


@pytest.fixture
def noticed():
    """Compute where warnings of tasks come to the caller: those of a cluster stay in its workers.

    On processes if LAZYFLOW_SCHEDULER is an engine, else where it says.
    """
    from lazyflow import config

    is_engine = config.get("scheduler") in ("distributed", "ray")
    with config.set(scheduler="processes" if is_engine else config.get("scheduler")):
        yield


def pytest_unconfigure():
    """End with what a failed test left submitted: the end of a program waits for that."""
    lazyflow = sys.modules.get("lazyflow")
    if lazyflow is not None:
        lazyflow.config.set(exit_timeout=5)
