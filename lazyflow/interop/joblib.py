"""joblib's backend on lazyflow's workers: importing this module registers it.

``joblib.parallel_config(backend="lazyflow")`` then runs `joblib.Parallel`, and the ``n_jobs`` of
scikit-learn, on the processes that lazyflow keeps warm; on its threads where a call prefers or
requires them; on a cluster with ``scheduler=client`` or ``scheduler="ray"``.

An array of at least ``max_nbytes`` is put into shared memory once for all calls of a `Parallel`,
and is read-only in the workers, as the files are that joblib's own backend maps; ``mmap_mode="c"``
gives each call a copy. A `numpy.memmap` is mapped there by its own mode. Other arguments are copied
for each batch and may be changed there. A worker that dies is replaced, and its batch runs again as
often as ``lazyflow.config``'s ``crash_retries`` says. Unlike joblib's own processes, workers that
have run another ``initializer`` stay, and run the new one as well. Threads belong to this process:
calls there share its arrays and its limits of threads, and an ``initializer`` is refused.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from multiprocessing import current_process
from typing import Any

import cloudpickle
import numpy as np
from joblib import parallel, register_parallel_backend
from joblib._parallel_backends import FallbackToBackend, SequentialBackend

from lazyflow import config
from lazyflow.api.decorator import delayed
from lazyflow.api.evaluate import RunOptions, SchedulerLike
from lazyflow.api.futures import Future, put, started
from lazyflow.errors import RemoteTaskError
from lazyflow.graph.task import function_name
from lazyflow.schedulers.core.base import EndsTasks, provides
from lazyflow.schedulers.core.task_resources import asleep
from lazyflow.schedulers.registry import scheduler_of
from lazyflow.store.pickling.pickler import mapped_part

__all__ = ["LazyflowBackend"]


class LazyflowBackend(parallel.AutoBatchingMixin, parallel.ParallelBackendBase):
    """Runs the batches of one `joblib.Parallel`; the one that a program names is copied for each.

    Parameters
    ----------
    scheduler
        Where calls run: as for `lazyflow.compute`. By default the one of `lazyflow.config`, else
        processes, or threads for ``prefer="threads"``; always threads for ``require="sharedmem"``.

    Examples
    --------
    >>> import joblib, lazyflow.interop.joblib
    >>> with joblib.parallel_config(backend="lazyflow", n_jobs=2):
    ...     joblib.Parallel(prefer="threads")(joblib.delayed(abs)(-i) for i in range(3))
    [0, 1, 2]
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
    supports_sharedmem = True
    parallel: Any = None

    def __init__(self, scheduler: SchedulerLike | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._given = scheduler
        self._lock = threading.Lock()
        self._waiting: deque[_Batch] = deque()
        self._running: set[_Batch] = set()
        self._shared: dict[int, tuple[Any, Future]] = {}  # by id, with the array that has the id

    def __reduce__(self) -> Any:
        made = partial(LazyflowBackend, self._given, nesting_level=self.nesting_level)
        return made, ()

    # -- how many, and where ------------------------------------------------------------------

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return how many calls run at once; negative numbers count from all cores down."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning; -1 means all cores")
        if n_jobs is None:
            return 1
        return n_jobs if n_jobs > 0 else max(config.cpu_count() + 1 + n_jobs, 1)

    def configure(
        self, n_jobs: int = 1, parallel: Any = None, prefer: str | None = None,
        require: str | None = None, max_nbytes: int | None = 1 << 20,
        mmap_mode: str | None = "r", **options: Any,
    ) -> int:
        """Get ready for the calls of a `Parallel`; return how many run at once."""
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        if self.parallel is not parallel:  # others may be running by this one
            own = LazyflowBackend(
                self._given, nesting_level=self.nesting_level,
                inner_max_num_threads=self.inner_max_num_threads, **self.backend_kwargs,
            )
            own.parallel = parallel
            raise FallbackToBackend(own)
        given = self._given if self._given is not None else config.get("scheduler")
        if require == "sharedmem" or (given is None and prefer == "threads"):
            given = "threads"
        self._scheduler: Any = scheduler_of("processes" if given is None else given)
        self._sends = self._scheduler.name not in ("threads", "sync")
        self._n_jobs = n_jobs
        self._least = max_nbytes if mmap_mode else None
        options = self.backend_kwargs | options
        initializer = options.get("initializer")
        if initializer is not None and not self._sends:
            raise ValueError(
                f"an initializer is for workers that are processes, and these calls run on "
                f"{self._scheduler.name}: call {function_name(initializer)} yourself before"
            )
        self._copies = mmap_mode != "r"
        self._initializer: bytes | None = initializer and cloudpickle.dumps(
            (initializer, options.get("initargs", ())))
        return n_jobs

    def compute_batch_size(self) -> int:
        """Return how many calls make the next batch: on threads, which cost little, one.

        Where eight times as many would still be a short batch, it is eight times as many.
        """
        if not self._sends:
            return 1
        is_quick = 0 < self._smoothed_batch_duration < self.MIN_IDEAL_BATCH_DURATION / 10
        size: int = super().compute_batch_size()
        if is_quick:
            size = self._effective_batch_size = 4 * size  # which was doubled
        return size

    def retrieval_context(self) -> AbstractContextManager[None]:
        """While the caller waits, a task that it is leaves its worker to others."""
        return asleep()

    # -- batches ------------------------------------------------------------------------------

    def submit(self, func: Any, callback: Callable[[Any], Any] | None = None) -> Any:
        """Have a batch of calls run when fewer than ``n_jobs`` do."""
        batch = _Batch(func, callback)
        with self._lock:
            self._waiting.append(batch)
        self._start_waiting()
        return batch

    def _start_waiting(self) -> None:
        """Start batches while there is room."""
        while True:
            with self._lock:
                if not self._waiting or len(self._running) >= self._most_sent():
                    return
                batch = self._waiting.popleft()
                self._running.add(batch)
            try:
                batch.future = self._started(batch.calls)
            except Exception as error:
                # The caller of Parallel gets it: raised here, it may end a thread of callbacks.
                batch.future = _Failed(error)
            batch.calls = None
            batch.future.add_done_callback(partial(self._done, batch))

    def _most_sent(self) -> int:
        """Return how many batches may be under way: a pool of ``n_jobs`` has the next ones ready.

        A larger one would run them at once.
        """
        size = getattr(self._scheduler, "size", None)  # of processes: their number
        return self._n_jobs if size is None or size > self._n_jobs else 2 * self._n_jobs

    def _started(self, calls: Any) -> Future:
        options = RunOptions("Parallel", {}, self._scheduler, self._n_jobs)
        function: Any = calls
        arguments: list[Any] = []
        if self._sends:
            function = _call
            arguments = self._packed(calls)
        name = f"{function_name(calls.items[0][0])} x {len(calls)}"
        task = delayed(function, name=name, traverse=False)(*arguments)
        return started([task], options)[0]

    def _packed(self, calls: Any) -> list[Any]:
        """Return arguments of `_call`: pickled calls, and futures of the large arrays in them.

        Raises
        ------
        PicklingError
            An argument can't be pickled.
        """
        by_path = self._scheduler.name == "processes"
        stream = io.BytesIO()
        pickler = _BatchPickler(stream, self._least, by_path)
        try:
            pickler.dump(calls)
        except Exception as error:
            raise pickle.PicklingError(
                "Could not pickle the task to send it to the workers: "
                f"{type(error).__name__}: {error}. "
                'Parallel(prefer="threads") sends nothing'
            ) from error
        has_managers = by_path and "multiprocessing.managers" in sys.modules
        authkey = bytes(current_process().authkey) if has_managers else None
        return [
            stream.getvalue(), self._copies, self.inner_max_num_threads, self._initializer, authkey,
            *map(self._put, pickler.large),
        ]

    def _put(self, array: Any) -> Future:
        with self._lock:
            known = self._shared.get(id(array))
            if known is None:
                known = self._shared[id(array)] = (array, put(array, scheduler=self._scheduler))
        return known[1]

    def _done(self, batch: _Batch, future: Any) -> None:
        with self._lock:
            self._running.discard(batch)
        self._start_waiting()
        if batch.callback is not None:
            batch.callback(future)

    def retrieve_result_callback(self, out: Any) -> Any:
        """Return the results of a batch; an error comes with the text of its own traceback."""
        try:
            return out.result()
        except RemoteTaskError as error:
            if isinstance(error.__cause__, KeyboardInterrupt):  # the task's, as joblib has it
                raise error.__cause__ from None
            _keep_traceback(error)
            raise
        except Exception as error:  # joblib takes the traceback off
            _keep_traceback(error)
            raise

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Give up all batches; worker processes that are in one are ended and replaced."""
        with self._lock:
            self._waiting.clear()
            running = tuple(self._running)
        force = provides(self._scheduler, EndsTasks)
        for batch in running:
            if batch.future is not None:
                batch.future.cancel(force)

    def stop_call(self) -> None:
        """Free the arrays of a call, which the program may change before the next one."""
        with self._lock:
            self._shared.clear()

    def terminate(self) -> None:
        """Forget the measured durations; the workers stay for later calls."""
        self.reset_batch_stats()


class _Batch:
    """Some calls on their way, and joblib's callback for their end."""

    __slots__ = ("callback", "calls", "future")

    def __init__(self, calls: Any, callback: Callable[[Any], Any] | None) -> None:
        self.calls = calls
        self.callback = callback
        self.future: Any = None


class _Failed:
    """Stands for the future of a batch that could not be sent."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        callback(self)

    def result(self) -> Any:
        raise self._error

    def cancel(self, force: bool = False) -> bool:
        return False


class _RemoteTraceback(Exception):
    """The cause of an error from a worker: the text of its traceback there."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


def _keep_traceback(error: Exception) -> None:
    """Have the error of a task carry its traceback as text, in place of the note on the task."""
    error.__notes__ = [
        note for note in getattr(error, "__notes__", ()) if not note.startswith("in lazyflow task")
    ]
    text = "".join(traceback.format_exception(error)).rstrip()
    if error.__cause__ is None:
        error.__cause__ = _RemoteTraceback(text)
    else:
        error.add_note(text)


# -- functions that workers call ----------------------------------------------------------


class _BatchPickler(cloudpickle.Pickler):
    """Pickles all but large arrays, which it collects; the stream asks for them by numbers."""

    def __init__(self, stream: io.BytesIO, least: int | None, by_path: bool) -> None:
        super().__init__(stream)
        self._least = least
        self._by_path = by_path
        self.large: list[Any] = []

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) not in _ARRAYS:
            return super().reducer_override(obj)
        written = self._written_part(obj)
        if written or self._least is None or obj.nbytes < self._least or obj.dtype.hasobject:
            return written or NotImplemented
        self.large.append(obj)  # once: pickle knows it the next time
        return _large_array, (len(self.large) - 1,)

    def _written_part(self, array: Any) -> Any:
        """Return how an array is mapped whose edits the file is to get, else None."""
        owner = array
        while type(owner) is np.ndarray:
            owner = owner.base
        if not self._by_path or type(owner) is not np.memmap or owner.mode not in ("r+", "w+"):
            return None
        part = mapped_part(array)
        return part and (part[0], (*part[1], "r+"))


_ARRAYS = (np.ndarray, np.memmap)


class _LargeArrays(threading.local):
    """Those of the batch that this thread runs."""

    arrays: Sequence[Any] = ()


_here = _LargeArrays()


def _large_array(number: int) -> Any:
    return _here.arrays[number]


_initialized: set[bytes] = set()  # initializers that this worker has called


def _call(
    data: bytes, copies: bool, threads: int | None, initializer: bytes | None,
    authkey: bytes | None, *arrays: Any,
) -> Any:
    """Run a batch in a worker.

    Parameters
    ----------
    data
        The pickled calls.
    copies
        Whether they get copies of large arrays, which they may change.
    threads
        How many threads libraries may start; None: as the worker's environment says.
    initializer
        The pickled function, and its arguments, that each worker calls before its first batch.
    authkey
        With which objects of `multiprocessing.Manager` connect.
    """
    if authkey is not None:
        current_process().authkey = authkey
    if initializer is not None and initializer not in _initialized:
        function, initargs = pickle.loads(initializer)
        function(*initargs)
        _initialized.add(initializer)
    with _limited(threads) if threads is not None else nullcontext():
        _here.arrays = tuple([array.copy(order="K") for array in arrays]) if copies else arrays
        try:
            calls = pickle.loads(data)
        finally:
            _here.arrays = ()
        return calls()


_call._lazyflow_brought = True  # type: ignore[attr-defined]  # results are for this once


@contextmanager
def _limited(threads: int) -> Iterator[None]:
    """Limit the threads of libraries that are loaded, and of those that will be."""
    from threadpoolctl import threadpool_limits

    variables = LazyflowBackend.MAX_NUM_THREADS_VARS
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(dict.fromkeys(variables, str(threads)))
    try:
        with threadpool_limits(threads):
            yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


register_parallel_backend("lazyflow", LazyflowBackend)
