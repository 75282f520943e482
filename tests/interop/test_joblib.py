"""joblib's `Parallel` on lazyflow: the same results and errors as without, on warm workers."""

import os
import signal
import sys
import time
from multiprocessing import TimeoutError
from pickle import PicklingError

import numpy as np
import pytest
from engine_schedulers import DISTRIBUTED, RAY, local_client
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import until

import lazyflow
from lazyflow.testing.signals import Barrier, Level, Tally

joblib = pytest.importorskip("joblib", minversion="1.5")
import lazyflow.interop.joblib  # noqa: E402

delayed, Parallel = joblib.delayed, joblib.Parallel


@pytest.fixture(autouse=True)
def by_lazyflow():
    with joblib.parallel_config(backend="lazyflow", n_jobs=2):
        yield


@settings(max_examples=10, deadline=None)
@given(
    items=st.lists(st.integers(), max_size=12),
    batch_size=st.sampled_from(["auto", 1, 5]),
    pre_dispatch=st.sampled_from(["2 * n_jobs", "all", 1]),
    return_as=st.sampled_from(["list", "generator", "generator_unordered"]),
    prefer=st.sampled_from([None, "threads"]),
)
def test_as_without(items, batch_size, pre_dispatch, return_as, prefer):
    calls = (delayed(lambda a, b: a * b)(i, b=3) for i in items)
    with joblib.parallel_config(backend="lazyflow", n_jobs=2):
        made = Parallel(
            batch_size=batch_size, pre_dispatch=pre_dispatch, return_as=return_as, prefer=prefer,
        )(calls)
    found = list(made)
    want = [3 * i for i in items]
    if return_as == "generator_unordered":
        found, want = sorted(found), sorted(want)
    assert found == want


def _seen(array, small):
    small[0] = 5  # may be changed: it is this call's own
    address = array.__array_interface__["data"][0]
    return os.getpid(), address, array.flags.writeable, float(array.sum())


def test_large_arrays_are_sent_once_and_read_in_place():
    x, small = np.arange(300_000.0), np.zeros(3)
    before = lazyflow.schedulers.info().get("processes", {}).get("shared_bytes", 0)
    with Parallel(batch_size=1) as parallel:
        seen = parallel(delayed(_seen)(x, small) for _ in range(8))
        shared = lazyflow.schedulers.info()["processes"]["shared_bytes"] - before
        x[0] = 7.0  # the next call gets what is there then
        again = parallel([delayed(_seen)(x, small)])
    assert shared < 2 * x.nbytes and small[0] == 0
    assert os.getpid() not in {pid for pid, *_ in seen}
    assert len({(pid, address) for pid, address, *_ in seen}) <= 2
    assert not any(writeable for _, _, writeable, _ in seen)
    assert again[0][3] == seen[0][3] + 7
    assert Parallel(mmap_mode="c")([delayed(_seen)(x, small)])[0][2]
    assert Parallel(require="sharedmem")([delayed(_seen)(x, small)])[0][0] == os.getpid()
    assert small[0] == 5


def test_a_mapped_file_is_written_by_calls(tmp_path):
    out = np.memmap(tmp_path / "out", float, "w+", shape=(4, 3))

    def write(row, i):
        row[:] = i

    Parallel()(delayed(write)(out[i], i) for i in range(4))
    np.testing.assert_array_equal(out, np.arange(4.0)[:, None] * np.ones(3))


class _Own(Exception):
    def __init__(self, a, b):
        super().__init__(a)
        self.b = b

    def __reduce__(self):
        return _Own, (self.args[0], self.b)


def test_errors_are_those_of_the_calls():
    def fail(i):
        if i == 3:
            raise _Own("three", i)
        return i

    with pytest.raises(_Own, match="three") as caught:
        Parallel()(delayed(fail)(i) for i in range(6))
    assert caught.value.b == 3
    assert "in fail" in str(caught.value.__cause__) and not caught.value.__notes__
    with pytest.raises(PicklingError, match="Could not pickle"):
        Parallel()([delayed(id)(sys._getframe())] * 2)
    with pytest.raises(KeyboardInterrupt):
        Parallel()([delayed(_interrupt)()] * 2)
    with pytest.raises(ValueError, match="n_jobs == 0"):
        Parallel(n_jobs=0)([delayed(abs)(1)])
    assert Parallel()(delayed(abs)(-i) for i in range(3)) == [0, 1, 2]


def _interrupt():
    raise KeyboardInterrupt


def test_a_call_that_takes_too_long_is_ended():
    def endless(number):
        if number:
            started.add(os.getpid())
            time.sleep(1000)

    started, limit = Tally(), 0.1
    while not len(started):  # within it a loaded machine may not even begin the call
        limit *= 2
        with pytest.raises(TimeoutError):
            Parallel(timeout=limit)(delayed(endless)(number) for number in range(2))
    assert Parallel()([delayed(abs)(-1)] * 2) == [1, 1]
    assert until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in started.items()))


@pytest.mark.parametrize("prefer", [None, "threads"])
def test_as_many_calls_at_once_as_asked_for(prefer):
    """Two meet, and then the next two: a third worker would wait in the middle of them."""
    running, pairs = Level(), [Barrier(2) for _ in range(8)]

    def meets(pair):
        with running:
            pair.wait()

    Parallel(n_jobs=3, prefer=prefer)([delayed(abs)(1)] * 3)  # the pool has three workers now
    Parallel(batch_size=1, pre_dispatch="all", prefer=prefer, timeout=60)(
        delayed(meets)(pairs[number // 2]) for number in range(16))
    assert running.most() == 2


def test_nested_calls_and_two_generators_at_once():
    def outer(i):
        inner = Parallel(n_jobs=2)(delayed(pow)(i, k) for k in range(3))
        return type(joblib.parallel.get_active_backend()[0]).__name__, inner

    assert Parallel()(delayed(outer)(i) for i in range(3)) == [
        ("ThreadingBackend", [1, i, i * i]) for i in range(3)
    ]
    first = Parallel(return_as="generator")(delayed(abs)(-i) for i in range(5))
    second = Parallel(return_as="generator")(delayed(abs)(-i) for i in range(5))
    assert list(zip(first, second, strict=True)) == [(i, i) for i in range(5)]
    # Called in a task, it leaves the worker to the calls while it waits.
    in_task = lazyflow.delayed(lambda: Parallel(n_jobs=2, backend="lazyflow", prefer="threads")(
        delayed(abs)(-i) for i in range(3)))
    assert lazyflow.compute(*[in_task() for _ in range(4)], scheduler="threads") == ([0, 1, 2],) * 4


def test_a_worker_that_is_killed_is_replaced(tmp_path):
    mark = tmp_path / "killed"

    def once(i):
        if i == 2 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    assert Parallel(batch_size=1)(delayed(once)(i) for i in range(4)) == [0, 1, 2, 3]
    with pytest.raises(lazyflow.WorkerDied):
        Parallel()([delayed(_die)()] * 2)
    assert Parallel()([delayed(abs)(-1)] * 2) == [1, 1]


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def _threads_and_state():
    return os.environ["OMP_NUM_THREADS"], getattr(os, "_noted", None)


def test_threads_of_libraries_and_initializers():
    def note(value):
        os._noted = value

    with joblib.parallel_config(
        "lazyflow", n_jobs=2, inner_max_num_threads=3, initializer=note, initargs=("ready",)
    ):
        assert Parallel()([delayed(_threads_and_state)()] * 3) == [("3", "ready")] * 3
    assert Parallel()([delayed(_threads_and_state)()])[0][0] != "3"


@pytest.mark.slow  # workers import scikit-learn
def test_a_search_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.model_selection")
    from sklearn.linear_model import LogisticRegression

    X = np.random.default_rng(0).normal(size=(80, 3))
    search = sklearn.GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2, n_jobs=2)
    search.fit(X, X[:, 0] > 0)
    found = search.cv_results_["mean_test_score"]
    with joblib.parallel_config("sequential"):
        search.fit(X, X[:, 0] > 0)
    np.testing.assert_array_equal(found, search.cv_results_["mean_test_score"])


def test_threads_take_no_initializer():
    with joblib.parallel_config(backend="lazyflow", n_jobs=2, initializer=print), pytest.raises(
        ValueError, match="these calls run on threads: call print yourself before"
    ):
        Parallel(prefer="threads")(delayed(abs)(i) for i in range(3))


@pytest.fixture(params=[DISTRIBUTED, RAY])
def engine(request):
    if request.param == "ray":
        yield request.param
        lazyflow.shutdown()
    else:
        with local_client() as client:
            yield client


def test_on_a_cluster(engine):
    rows = np.arange(200_000.0)

    def part(x, i):
        if i == 5:
            raise LookupError(i)
        return os.getpid(), x[i:].sum()

    with joblib.parallel_config(backend="lazyflow", n_jobs=2, scheduler=engine):
        made = Parallel(return_as="generator")(delayed(part)(rows, i) for i in range(5))
        pids, sums = zip(*made, strict=True)
        assert os.getpid() not in pids
        assert list(sums) == [rows[i:].sum() for i in range(5)]
        assert Parallel()(delayed(abs)(-i) for i in range(100)) == list(range(100))
        with pytest.raises(LookupError, match="5"):
            Parallel()(delayed(part)(rows, i) for i in range(7))
        with pytest.raises(TimeoutError):
            Parallel(timeout=0.1)(delayed(time.sleep)(3) for _ in range(2))
        nested = Parallel()(
            delayed(lambda n: sum(Parallel(n_jobs=2)(delayed(abs)(-i) for i in range(n))))(n)
            for n in range(4)
        )
        assert nested == [0, 0, 1, 3]
