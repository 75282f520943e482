"""`scheduler="processes"`: persistent workers that keep the results they make.

For its users:

- The workers start on first use, live as long as the program, and serve every ``compute``.
  ``num_workers=`` caps a run; the pool grows to the largest number requested;
  `lazyflow.shutdown` ends it. Scripts need no ``if __name__ == "__main__":``, and functions from
  notebooks and the prompt work. ``lazyflow.schedulers.info()["processes"]`` lists the workers and
  the bytes they hold.
- A result stays in the worker that made it, and tasks go to where their inputs are; the caller
  runs only the last, small step of an array's sum, mean or maximum. Values that another process
  needs go through shared memory: other workers and the caller map large arrays instead of copying
  them, and the caller's result is writable. The memory has no name, so nothing is left in
  ``/dev/shm``, even after ``kill -9``.
- A worker that dies is replaced. Its running task runs again (``crash_retries=``, 2 by default;
  set 0 for tasks with external effects that must not happen twice), then fails with `WorkerDied`.
  Results of other workers are kept, and lost results are made again, also those of `persist`.
  ``retries=`` is for exceptions.
- ``timeout=``, Ctrl-C and ``x.cancel(force=True)`` end a task that sleeps in C, by ending its
  worker.
- Output of tasks appears in the caller's ``sys.stdout`` and ``sys.stderr``, in whole lines. Log
  records go to the caller's handlers, with the levels set when ``compute`` is called. Filters of
  ``warnings`` apply to tasks, and the caller shows or records their warnings.
- A ``compute`` inside a task runs in its worker. Tasks see the caller's context variables,
  ``numpy.errstate`` and working directory. At each compute, workers take over the caller's changes
  to ``os.environ`` and to the recursion limit. BLAS, OpenMP and Numba threads are capped in
  workers.
- Workers have the same version of the user's modules (those that are not installed) as the caller:
  when one is reloaded, by ``importlib.reload`` or ``%autoreload 2``, they reload it before the next
  ``compute``, and report that once. If a module was edited but not reloaded, a new worker can't
  load the caller's version: an error names the module. Attributes that the program sets on a module
  (``hm.K = 5``) stay in the program, as with dask, joblib and `multiprocessing`.

The modules:

`scheduler.py` starts, awaits, abandons and ends runs; `protocol.py` defines and carries the
messages between the parent and a worker. Code shared with other schedulers is in
``schedulers/remote/``: calls, and the caller's environment in workers.

decisions/, which use no clock, process or socket::

    events.py      answers, values, jobs that begin and end, workers that die
    assignment.py  the next task for a worker, and how many go there together
    pool_state.py  the state of the pool: queues of ready tasks, counts of a value's users, and
                   the lineage by which lost values are made again
    nodes.py       records of tasks, jobs, workers, batches and functions; instructions

parent/, in the order of one call::

    pool_run.py     a run as the rest of the library sees it, and the job made of its plan
    driver.py         the thread that connects decisions, workers and runs
    event_loop.py     its waiting, and the steps that other threads post to it
    pool.py           the worker processes: started, read from, looked after, ended
    worker_handle.py  one worker as the driver knows it: its start, messages and output
    values.py         shared memory, arguments pickled in a thread of their own, functions by
                      number, and values that stay in the pool
    actor_port.py     this side of actors, and their processes

worker/::

    main.py          the main thread from start to end, and the thread that answers meanwhile
    process.py       common to all worker processes: sockets, the user's modules, log records
    task_worker.py   runs tasks, keeps values, answers
    parcels.py       short calls of an executor that travel as one task
    actor_worker.py  holds an actor
    nested.py        computes inside a task
    parent_death.py  the worker ends with its parent

Where to look::

    the order of tasks         decisions/assignment.py: `first`, `another`
    a value is dropped         decisions/pool_state.py: `RefCounts.release`; within a batch, by the
                               worker: `RefCounts.sent` tells it after which task
    a death is charged         decisions/events.py: `lost`, to the task that the dead worker's page
                               names (parent/worker_handle.py: `WorkerHandle.charged`)
    Ctrl-C                     api/evaluate.py: `run_to_end`; then parent/driver.py: `Runs.abandon`
    a large literal is shared  parent/values.py: `PoolMemory.argument`
"""
