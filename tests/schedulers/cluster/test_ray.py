"""`scheduler="ray"`: the contract, what dies, and whose Ray it is."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest
from waiting import until

import lazyflow
from lazyflow import SchedulerLost, WorkerDied, compute, delayed, persist
from lazyflow.schedulers.registry import scheduler_named
from lazyflow.testing.contract import SchedulerContract
from lazyflow.testing.signals import Gate, Tally, inc

numpy = pytest.importorskip("numpy")
ray = pytest.importorskip("ray", reason="ray is not installed")
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

ON = {"scheduler": "ray", "timeout": 100}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def ours():
    with lazyflow.config.set(num_workers=2):
        compute(delayed(inc)(1), **ON)
    yield
    lazyflow.shutdown()
    assert not ray.is_initialized()


class TestContract(SchedulerContract):
    scheduler = "ray"
    shares_memory = False
    survives_fork = False


def test_r1_a_task_that_kills_its_worker_fails_alone():
    good = [delayed(inc)(i) for i in range(4)]
    poison = delayed(os._exit, name="poison")(3)
    found = compute(good, poison, on_error="collect", **ON)
    assert found[0] == [1, 2, 3, 4]
    assert type(found[1]) is WorkerDied
    assert "3 workers ended while running this task, the last" in str(found[1])
    assert found[1].__notes__[0].startswith("in lazyflow task poison, made at ")


def test_a_worker_that_is_killed_once_changes_nothing():
    tries = Tally()

    def once(i):
        if i == 2 and tries.add(os.getpid()) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    assert compute(delayed(sum)([delayed(once)(i) for i in range(4)]), **ON) == (6,)
    assert len(tries) == 2


def test_a_short_task_that_nobody_needs_is_left_to_end_for_to_cancel_costs_a_worker():
    def tell(started, go, ended):
        started.open()
        go.wait()
        ended.open()

    go = Gate()
    go.open()
    compute([delayed(tell)(Gate(), go, Gate()) for i in range(20)], **ON)  # it is known to be short
    started, go, ended = Gate(), Gate(), Gate()
    dropped = persist(delayed(tell)(started, go, ended), scheduler="ray")
    assert started.wait()
    del dropped
    compute(delayed(inc)(1), **ON)  # what was dropped before has been looked at
    go.open()
    assert ended.wait(20)


def test_a_shutdown_meanwhile_ends_waiting():
    started, go = Gate(), Gate()
    waits = persist(delayed(lambda: started.open() or go.wait())(), scheduler="ray")
    assert started.wait()
    lazyflow.shutdown()
    with pytest.raises(SchedulerLost, match="Ray was shut down"):
        compute(waits, timeout=60)
    with lazyflow.config.set(num_workers=2):
        assert compute(delayed(inc)(1), **ON) == (2,)


def test_persisted_values_stay_in_ray():
    x, y = persist(delayed(numpy.ones)(300_000), delayed(inc)(1), scheduler="ray")
    lazyflow.wait([x, y])
    assert x._args[0].is_elsewhere()
    assert compute(delayed(numpy.sum)(x), y, **ON) == (300_000.0, 2)


def test_a_put_value_and_a_large_literal():
    held = scheduler_named("ray").put(numpy.arange(300_000), delayed(0))
    assert held.get().sum() == numpy.arange(300_000).sum()
    data = numpy.ones(300_000)
    f = delayed(lambda a, i: float(a.sum()) + i)
    assert compute([f(data, i) for i in range(5)], **ON)[0] == [300_000.0 + i for i in range(5)]


def tell():
    return os.environ.get("FROM_TEST")


def test_ray_gets_its_options_as_they_are():
    class Place:
        def tell(self):
            return tell()

    with lazyflow.config.set(ray_options={"runtime_env": {"env_vars": {"FROM_TEST": "given"}}}):
        assert compute(delayed(tell)(), **ON) == ("given",)
        place = lazyflow.actor(Place, scheduler="ray")()
        assert place.tell().result(timeout=60) == "given"
    assert compute(delayed(tell)(), **ON) == (None,)
    nowhere = NodeAffinitySchedulingStrategy("a" * 56, soft=False)
    for given, error in (
        ({"scheduling_strategy": nowhere}, ray.exceptions.TaskUnschedulableError),
        ({"nonsense": 1}, ValueError),
    ):
        with lazyflow.config.set(ray_options=given), pytest.raises(error):
            compute(delayed(tell)(), **ON)
    with pytest.raises(ValueError, match="ray_options must be a dict of the options of ray.remote"):
        lazyflow.config.set(ray_options={"name": "mine"})


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_tasks_of_ray_are_named_after_what_they_do():
    name = delayed(
        lambda *_: pathlib.Path("/proc/self/cmdline").read_text().strip("\0 "), name="tell-name")
    assert compute(name(), name(delayed(inc)(1)), **ON) == ("ray::tell_name", "ray::inc+tell_name")


def test_what_a_lazy_value_became_is_made_again():
    made = Tally()

    def lazily(i):
        return delayed(lambda x: (made.add(i), numpy.full(200_000, x))[1])(delayed(inc)(i))

    kept = persist(*[delayed(lazily)(i) for i in range(4)], scheduler="ray")
    lazyflow.wait(list(kept))
    killed = Tally()

    def once(x):
        if killed.add(os.getpid()) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return float(x.sum())

    assert compute([delayed(once)(x) for x in kept], **ON)[0] == [2e5, 4e5, 6e5, 8e5]


OWN = """
import ray, sys, lazyflow
from lazyflow.testing.signals import inc
if sys.argv[1] == "users":
    ray.init(address="local", num_cpus=1, include_dashboard=False, configure_logging=False)
with lazyflow.config.set(num_workers=1):
    assert lazyflow.compute(lazyflow.delayed(inc)(1), scheduler="ray") == (2,)
folder = ray._private.worker._global_node.get_temp_dir_path()
lazyflow.shutdown()
print(ray.is_initialized())
print(folder)
"""


def run(whose, code=OWN):
    out = subprocess.run(
        [sys.executable, "-c", code, whose], capture_output=True, text=True, timeout=100,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)})
    assert out.returncode == 0, out.stderr
    return out.stdout.splitlines()


def test_r3_a_ray_of_the_users_is_not_shut_down():
    assert run("users")[-2] == "True"


def test_r4_a_ray_of_ours_leaves_nothing():
    is_there, folder = run("ours")[-2:]
    assert is_there == "False"
    assert "lazyflow-ray-" in folder and not pathlib.Path(folder).exists()
    assert until(lambda: not using(folder), 20)


KILLED = """
import os, ray, signal, sys, time, lazyflow
from lazyflow.testing.signals import Gate
if sys.argv[1] == "users":
    ray.init(address="local", num_cpus=1, include_dashboard=False, configure_logging=False)
lazyflow.config.set(num_workers=1, scheduler="ray")
started, go = Gate(), Gate()
waits = lazyflow.delayed(lambda: started.open() or go.wait(60))().persist()
assert started.wait()
raylet = ray._private.worker._global_node.all_processes["raylet"][0].process
os.kill(raylet.pid, signal.SIGKILL)
try:
    lazyflow.compute(waits, timeout=60)
except lazyflow.SchedulerLost as error:
    said = str(error)[:47]
try:
    found = lazyflow.compute(lazyflow.delayed(abs)(-1), timeout=60)
except lazyflow.SchedulerLost:
    ray.shutdown()
    found = "users"
print("told", said, found, sep="|", flush=True)
"""


@pytest.mark.parametrize("whose", ["ours", "users"])
def test_r2_the_raylet_is_killed(whose):
    (told,) = [line for line in run(whose, KILLED) if line.startswith("told|")]
    words, then = told.split("|")[1:]
    assert words == "Ray was shut down, or its process on this machi"
    assert then == ("(1,)" if whose == "ours" else "users")


def using(folder):
    """Return the processes that were started for a folder."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if folder.encode() in process.read_bytes():
                found.append(process.parent.name)
        except OSError:
            pass
    return found
