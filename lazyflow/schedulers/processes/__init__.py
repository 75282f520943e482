"""`scheduler="processes"`: warm workers, results kept where they are made.

For its users:

- The workers are started on first use, live as long as the program, and are used by every
  ``compute``. ``num_workers=`` caps a run; the pool grows to the largest that was asked for;
  `lazyflow.shutdown` ends it. Scripts need no ``if __name__ == "__main__":``, and functions of
  notebooks and of the prompt work. ``lazyflow.schedulers.info()["processes"]`` has the workers and
  what they hold, in bytes.
- A result stays in the worker that made it, and tasks go to where their inputs are; only the last,
  small step of an array's sum, mean or maximum is left to the caller. What another
  process needs goes through shared memory: large arrays are mapped, not copied, by other workers
  and by the caller, whose result is writable all the same. Nothing is left in ``/dev/shm``, not by
  ``kill -9`` either: the memory has no name.
- A worker that dies is replaced. The task that it ran is run again (``crash_retries=``, 2 unless
  said; 0 for tasks with effects outside that must not happen twice), then fails with `WorkerDied`;
  the results of others are kept, and lost ones are made again, also those of `persist`.
  ``retries=`` is for exceptions.
- ``timeout=``, Ctrl-C and ``x.cancel(force=True)`` end a task that sleeps in C, by ending its
  worker.
- What tasks print appears in the caller's ``sys.stdout`` and ``sys.stderr``, in whole lines. What
  they log goes to the caller's handlers, with levels as they are when ``compute`` is called;
  filters of ``warnings`` hold for tasks, and what they warn of is shown or recorded by the caller.
- A ``compute`` inside a task runs in its worker. Tasks see the caller's context variables,
  ``numpy.errstate`` and working directory. At each compute workers take over what the caller has
  changed of ``os.environ`` and of the recursion limit. BLAS, OpenMP and Numba threads are capped
  in workers.
- Workers have the user's modules (those that are not installed) as the caller has them: when one is
  reloaded, by ``importlib.reload`` or ``%autoreload 2``, they do the same before the next
  ``compute``, and that is said once. A module that was edited and not reloaded, so that a new
  worker can't have the caller's, is refused by name. What the program sets on a module
  (``hm.K = 5``) stays in the program, as with dask, joblib and `multiprocessing`.

The modules:

`scheduler.py` starts, awaits, abandons and ends; `protocol.py` says what the parent and a worker
send each other, and carries it; `surroundings.py` has what workers take over of the caller's
surroundings: environment variables, the recursion limit, settings of logging and warnings.
What both sides share with other wires is in ``schedulers/remote/``: calls, the caller's
environment, and versions of the user's modules.

decisions/, what is decided, without clock, process or socket::

    nodes.py       what is known of tasks, jobs, workers, flights and functions; instructions
    pool_state.py  the state of the pool: queues of ready tasks, counts of what needs a value, and
                   the lineage by which lost values are made again
    assignment.py  the next task for a worker, and how many go there together
    events.py      what happens: answers, values, jobs that begin and end, workers that die

parent/, the way of one call first::

    remote_run.py     a run as the rest of the library sees it, and the job made of its plan
    driver.py         the thread that connects decisions, workers and runs
    event_loop.py     what it waits for, and the steps that other threads post to it
    pool.py           the worker processes: started, read from, looked after, ended
    worker_handle.py  one worker as the driver knows it: its start, messages, and what it prints
    values.py         shared memory, arguments pickled in a thread of their own, functions by
                      number, and values that stay in the pool
    actor_port.py     the end of actors here, and their processes

worker/::

    main.py          the main thread from its start to its end, and the one that answers meanwhile
    process.py       what all worker processes have: sockets, the user's modules, log records
    task_worker.py   runs tasks, keeps values, answers
    actor_worker.py  has an actor
    nested.py        computes inside a task
    parent_death.py  the worker ends with its parent

Where to look: the order of tasks is decided in `assignment.py`; a value is dropped in
`pool_state.py` (`RefCounts.release`); a death is charged in `events.py`; Ctrl-C is handled in
``core/event.py`` and `scheduler.py`; a large literal is shared in `values.py` (`PoolMemory`).
"""
