"""What users call, and what they hold: lazy values, futures, collections and actors.

`delayed` makes lazy calls, and `compute`, `persist`, `optimize`, `trace`, `wait` and ``await`` take
them. `persist` starts the work and returns lazy values without inputs, so that a loop of a thousand
steps keeps a graph of one task; `trace` plans a graph once and runs it again with other leaves.

`submit`, `map` and `put` start at once and return futures. A value stays in its worker until
``result()`` asks for it. ``wait(fs)`` waits for all of them unless ``num_returns=`` says otherwise
(Ray's default is 1), and returns ``(done, pending)`` also when its ``timeout=`` is over.
``status``, ``retry()``, ``map(..., retries=)`` and `as_completed` with ``add`` and ``async for``
are as in distributed. Callbacks have a thread of their own, so they may compute and wait. What was
submitted runs also when nobody holds its future; a future that is dropped frees its value. On
processes, large values that are put lie in shared memory, where every worker reads them without a
copy; a large argument that every compute sends again is named in a warning.

A wait that is interrupted or times out cancels only what the waiting call itself started.

`lazy` and `decorator` build graphs; `targets` finds what is asked for in nested containers, and
`evaluate` computes it; `waiting`, `arrivals`, `futures` and `retrying` are about results that come
later; `graph_pickle` is how lazy values travel; `actors`, `actor_pool`, `pending_calls`,
`worker_states` and `lock` are objects with a state of their own.
"""
