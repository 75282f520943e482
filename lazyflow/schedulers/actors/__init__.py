"""Code shared by the actors of all schedulers, and the actors of this process.

For users of `lazyflow.actor`:

- An actor lives in a process of its own on processes and Ray, in a worker of the cluster on
  distributed, in a thread of its own on threads, in the caller's thread on sync.
- Its calls run one after the other, in the order in which they were made, even when an earlier one
  still waits for its arguments. A failed call does not affect others. ``max_concurrency=n`` lets n
  calls run at once, in threads; a class with ``async def`` methods has an event loop for them. In
  both cases calls begin in the order in which their arguments arrive, as on Ray: a call that waits
  for its arguments does not hold up the calls that produce them.
- An actor owns its arguments, and may edit and keep them; results are snapshots. So actor and
  caller may go on changing their arrays. Objects held elsewhere, such as the value of a future, are
  copied for that. On sync and threads this does not cover arrays inside objects of the user's
  classes.
- You can pass handles to tasks and to other actors on every scheduler, also inside containers,
  `put` values and results. Calls go to the one actor, in the order in which each
  process makes them. Other processes send them through the process that made the actor (see
  handles/), which must live as long: an actor that a task makes ends with the task's worker.
- An actor ends after the last handle is dropped and the calls made by then have run. With
  ``name=`` and ``get_if_exists=True`` a second call returns a handle on the same actor, and so does
  ``get_actor(name)``, there and in tasks and methods. A handle that a task or method returns to
  another process, or that `pickle.dumps` has packed, keeps the actor until
  ``lazyflow.shutdown()``.
- Actors that run one call at a time, and whose calls wait for each other in a circle by
  ``result()``, get a `CycleError` that names them. Async methods may wait for each other.
- When its process dies, the running call fails with `WorkerDied` and is not run again, because
  its effects up to then are unknown. All later calls fail as well, unless the actor has
  ``restarts=n``: then they run in a new process, from the constructor, or from the state that
  ``checkpoint="get_state"`` kept after each call (``set_state`` gets it; ``checkpoint_every=k``
  keeps it after every k-th).
- When 10,000 calls of an actor (``max_pending_calls``) are pending, the caller of the next one
  sleeps until some have ended. Tasks and calls of actors go on, since others may wait for them; so
  do coroutines, which would block their event loop: ``await`` the calls.
- ``ActorPool(actors).map(lambda a, x: a.work(x), items)`` gives each item to a free actor.

On processes, large arrays go through shared memory, also between actors and workers. On distributed
and Ray, several calls go in one message, and results above 16 KiB stay in the cluster. lazyflow
itself does restarts and checkpoints there, so that the engine never runs a call twice. Differences:

- On distributed an actor shares its worker with tasks, other actors and kept values: all of them
  end with the worker, and ``cancel(force=True)`` lets a running call finish.
  The actor is made when a worker has a free thread. A large result is lost with the worker
  (`WorkerDied` when it is asked for); on Ray it is not.
- A file in the temporary folder of the actor's machine (on Ray in the folder of its session) tells
  which call was running at a death. If it can't be read, as when the machine is gone, every
  call that was sent and not answered fails with `WorkerDied`: any of them may have run. So do calls
  that had ended with a large result or checkpoint still on its way.
- Output of methods goes where the engine sends it.

The modules::

    calls.py           the recipe of an actor, its calls, and circles of waiting calls
    call_executors.py  where calls run: in the caller's thread, in threads, in an event loop
    local.py           actors of this process: on sync and threads

    handles/           handles in other processes

    ports.py           the parts that differ when the object is in another process, as bases and
                       protocols, and the facts of such a process's end
    remote_actor.py    such an actor on the caller's side: calls, answers, and deaths with errors
    instance.py        the object in its worker, and the calls of its methods

A call goes through `Actor` of the API, `RemoteActor.call`, the link of a pool
(processes/parent/actor_port.py) or an engine (cluster/actors/link.py), and in the worker through
`ActorInstance.call` and an executor; its answer comes back to `RemoteActor.answered`.
"""
