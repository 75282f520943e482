"""The functions that users call, and the lazy values, futures, collections and actors they get.

`delayed` makes lazy calls; `compute`, `persist`, `optimize`, `trace` and ``await`` take them.
`persist` starts the work and returns lazy values without inputs, so that a loop of a thousand
steps keeps a graph of one task; `trace` plans a graph once and runs it again with other leaves.

`submit`, `map` and `put` start at once and return futures. A value stays in its worker until
``result()`` asks for it. ``wait(fs)`` waits for all futures unless ``num_returns=`` says otherwise
(Ray's default is 1), and returns ``(done, pending)`` even after its ``timeout=``.
``status``, ``retry()``, ``map(..., retries=)`` and `as_completed` with ``add`` and ``async for``
are as in distributed. Callbacks have a thread of their own, so they may compute and wait.
Submitted work runs even when its future is dropped; dropping a future frees its value. On
processes, large `put` values lie in shared memory, where every worker reads them without a
copy; a warning names a large argument that every compute sends again.

A wait that is interrupted or times out cancels only work that the waiting call itself started.

The modules; each imports only those above it, and a test checks this::

    hints            what to type instead of names and keywords of dask.distributed
    graph_pickle     lazy values as bytes
    evaluate         `compute`, `persist`, `optimize`, `is_lazy`: their arguments and keywords, and
                     runs of plans: started, waited for, left in the background, retried
    progress_events  events for observers beside runs: work of several runs, such as a fit
    waiting          `wait`, `gather`, ``await x``, `as_completed`
    lazy             `Delayed`: tasks that behave like their results, operations that raise, and the
                     protocol of dask's collections
    collection       `Collection`: other objects that are made of tasks
    decorator        `delayed`, `from_map`, `tree_reduce`
    rerunning        `rerun`: repeats a failed task, for a debugger; `trace`: plans a graph once and
                     runs it again with other values
    futures          `Future`, `submit`, `map` and `put`, and the thread of users' callbacks
    call_threads     threads that make the calls of an `Executor`, and the end of the program
    executors        `Executor`: the interface of `concurrent.futures` on any scheduler; short calls
                     go to processes together
    actors           `actor`, which makes classes of actors; handles on them, their pending calls
    actor_pool       `ActorPool`
    worker_states    `worker_state`: values that a process builds once, and their locks

A call of ``x.compute()`` goes through `lazy` to `evaluate`; `graph.plan` makes the plan. `evaluate`
starts it on the scheduler that the keywords chose, and replaces the lazy values by their results.
"""
