"""What the actors of all schedulers have in common, and those of this process.

For users of `lazyflow.actor`:

- An actor lives in a process of its own on processes and Ray, in a worker of the cluster on
  distributed, in a thread of its own on threads, in the caller's thread on sync.
- Its calls run one after the other, in the order in which they were made, also when an earlier one
  still waits for its arguments. A call that fails fails alone. ``max_concurrency=n`` lets n calls
  run at once, in threads; a class with ``async def`` methods has an event loop for them. There
  calls begin in the order in which their arguments are there, as on Ray: a call that waits for
  those holds up no other, which may be what it waits for.
- What goes in is the actor's own, to be edited and kept, and what comes out is a snapshot: actor
  and caller may go on changing their arrays. What is held elsewhere, such as the value of a future,
  is copied for that. On sync and threads this does not cover arrays inside objects of the user's
  classes.
- Handles can be given to tasks and to other actors, on every scheduler, and be part of containers,
  of values that are put and of results: calls go to the one actor, in the order in which each
  process makes them. In other processes they go through the one that made the actor: see
  handles/. What it has made must not end before: an actor that a task makes ends with the worker.
- An actor ends with the last handle that anybody has, after the calls that were made. With
  ``name=`` and ``get_if_exists=True`` a second call returns a handle on the same actor, and so does
  ``get_actor(name)``, there and in tasks and methods. A handle that a task or method returns to
  another process, and one that `pickle.dumps` has packed, keep the actor until
  ``lazyflow.shutdown()``.
- Actors whose calls wait for each other in a circle get a `CycleError` that names them, where each
  runs one call at a time and waits by ``result()``. Async methods may wait for each other.
- When its process dies, the call that ran fails with `WorkerDied` and is not run again, since
  it is not known what it had done. So do all later ones, unless the actor has ``restarts=n``: then
  they go on in a new process, from the constructor, or from the state that
  ``checkpoint="get_state"`` kept after each call (``set_state`` gets it; ``checkpoint_every=k``
  keeps it after every k-th).
- When 10,000 calls of an actor (``max_pending_calls``) are pending, the caller of the next one
  sleeps until some have ended. Tasks and calls of actors are not held back, since others may wait
  for them, and coroutines neither, since their event loop would stand still: ``await`` the calls.
- ``ActorPool(actors).map(lambda a, x: a.work(x), items)`` gives each item to an actor that is free.

On processes large arrays go through shared memory, between actors and workers, too. On distributed
and Ray several calls go in one message, restarts and checkpoints are lazyflow's, so that the engine
never runs a call twice, and results above 16 KiB stay in the cluster. Different there:

- On distributed an actor shares its worker with tasks, other actors and values that are kept there:
  what ends the worker ends them, too, and ``cancel(force=True)`` leaves a running call to its end.
  The actor is made when a worker has a thread free. A large result is gone with the worker
  (`WorkerDied` when it is asked for); on Ray it is not.
- Which call is to blame for a death is read from a file in the temporary folder of the actor's
  machine (on Ray in its session's). Where that can't be read, as when the machine is gone, every
  call that was sent and not answered fails with `WorkerDied`: any of them may have run. So do calls
  that had ended with a large result or checkpoint that was still on its way.
- What a method prints goes where the engine sends it.

The modules::

    calls.py           what an actor is made of, what a call of it is, and circles of waiting calls
    call_executors.py  where calls run: in the caller's thread, in threads, in an event loop
    local.py           actors of this process: on sync and threads

    handles/           handles in other processes

    ports.py           protocols of what differs where the object is in another process
    remote_actor.py    such an actor on the caller's side: its calls, their inputs, answers, deaths
    deaths.py          errors of calls whose process has ended
    instance.py        the object in its worker, and the calls of its methods

A call goes through `Actor` of the API, `RemoteActor.call`, the link of a pool
(processes/parent/actor_port.py) or an engine (cluster/actors/link.py), and in the worker through
`ActorInstance.call` and an executor; its answer comes back to `RemoteActor.answered`.
"""
