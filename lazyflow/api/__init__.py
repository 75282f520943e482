"""The functions that users call, and the lazy values, futures, collections and actors they get.

`delayed` makes lazy calls; `compute`, `persist`, `optimize`, `trace` and ``await`` take them.
`persist` starts the work and returns lazy values without inputs, so that a loop of a thousand
steps keeps a graph of one task; `trace` plans a graph once and runs it again with other leaves.

`submit`, `map` and `put` start at once and return futures. A value stays in its worker until
``result()`` asks for it. ``wait(fs)`` waits for all of them unless ``num_returns=`` says otherwise
(Ray's default is 1), and returns ``(done, pending)`` also when its ``timeout=`` is over.
``status``, ``retry()``, ``map(..., retries=)`` and `as_completed` with ``add`` and ``async for``
are as in distributed. Callbacks have a thread of their own, so they may compute and wait.
Submitted work is done even when its future is dropped; dropping a future frees its value. On
processes, large values that are put lie in shared memory, where every worker reads them without a
copy; a warning names a large argument that every compute sends again.

A wait that is interrupted or times out cancels only the work that the waiting call itself started.

The modules; each imports only those above it, by test:

    advice          operations that lazy values refuse, and what to type instead
    graph_pickle    lazy values as bytes
    targets         the lazy values in the arguments of one call, and the places of their values
    run_options     the checked keywords of one call, and the scheduler that they lead to
    runs            runs of plans: started, waited for, left running in the background, retried
    works           what observers hear beside runs: pieces of work of several, as a fit
    evaluate        `compute`, `persist`, `optimize`, `is_lazy`
    waiting         `wait`, `gather`, and ``await x``
    lazy            `Delayed`: tasks that behave like their results
    collection      `Collection`: other objects that are made of tasks
    decorator       `delayed`
    reduction       `tree_reduce`
    rerunning       `rerun`: a failed task again, for a debugger
    tracing         `trace`: a graph that is planned once and run again with other values
    arrivals        `as_completed`
    futures         `Future`, and the thread that calls users' callbacks
    submitting      `submit`, `map` and `put`
    pending_calls   the limit on pending calls of an actor
    actor_settings  the options of an actor
    actor_handles   handles on actors, here and in other processes
    actors          `actor`, which makes classes of actors
    actor_pool      `ActorPool`
    lock            a lock that one task at a time may hold
    state_cells     the values of worker states in a process
    worker_states   `worker_state`

One call of ``x.compute()`` goes `lazy`, `evaluate`, `targets`, then `graph.passes` makes the plan,
`runs` starts it on the scheduler that `run_options` chose and returns the values, and `targets`
puts them in the places of the lazy values.
"""
