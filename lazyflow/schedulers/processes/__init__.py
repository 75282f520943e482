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
send each other, `channel.py` carries it; `notices.py`: logging and warnings, as configured
here; `surroundings.py`: environment variables and the recursion limit.
What both sides share with other wires is in ``schedulers/remote/``: calls, task stubs, the
caller's environment, and versions of the user's modules.

decisions/, what is decided, without clock, process or socket:

    nodes.py         what is known of tasks, jobs, workers, flights and functions
    instructions.py  what the decisions have the driver do
    state.py         the state of the pool, which is made of:
    queues.py        ready tasks, and tasks that wait until a value can be had where they should run
    refcounts.py     the counts: what needs a value, what can be dropped, fails or is given up
    lineage.py       what is kept so that a lost value can be made again, and how it is
    selection.py     the next task for a worker; batching.py: how many go there together
    answers.py       the events of answers; values.py, jobs.py: of values, jobs
    workers.py       the events of workers, and what the death of one costs

parent/, the way of one call first:

    remote_run.py     a run, as the rest of the library sees it
    job_builder.py    from a plan to a job, in the caller's thread
    driver.py         the thread that connects decisions, workers and runs
    event_loop.py     what it waits for, and the steps that other threads post to it
    runs.py           runs are taken in, given results, and end
    value_table.py    values of nodes are given, packed, fetched, and let go
    sending.py        makes messages of flights; receiving.py makes events of messages
    pool.py           the worker processes: started, read from, looked after, ended; deaths.py:
                      their errors
    worker_handle.py  one worker as the driver knows it, and what it prints; launch.py starts it
    pool_value.py     values that stay in the pool: results, and what is put
    packing.py        arguments that are pickled in a thread of their own; repeats.py: advice
    merging.py        small last steps of reductions, run by the caller
    memory.py         shared memory, as the parent has it
    functions.py      functions by number
    actor_port.py     the end of actors here, and their processes

worker/:

    main.py            the main thread, from its start to its end
    process.py         what every worker has: sockets, memory, what it follows of the caller's
    task_worker.py     runs tasks; flight.py: those that came together, and what is answered
    value_store.py     the values that it keeps
    service.py         answers while a task runs
    following.py       the user's modules, kept at the version that the caller has
    reporting.py       records and warnings of tasks, on their way to the caller
    parent_death.py    the worker ends with its parent; nested.py: computes inside a task
    actor_worker.py    the process of an actor, and the end of the actor in it
"""
