"""What runs plans. `core.base` is the page to read to add a scheduler.

The modules, in reading order::

    core/         what every scheduler stands on: the protocol, runs, slots, futures, errors
    sync.py       runs tasks in the caller's thread, one after the other
    threads.py    runs them in one pool of threads: the default
    executor.py   runs them on a `concurrent.futures.Executor` of the user's
    remote/       what both sides of any wire share
    processes/    runs tasks in worker processes
    cluster/      runs them on distributed and on Ray
    actors/       actors on all of these
    registry.py   finds the scheduler for a name, an object or nothing

A `compute` asks the registry for the scheduler, makes a run of the plan (`core.run.Run`, or the
scheduler's own), passes it to the scheduler's `start` and sleeps in its `wait`. The run tells the
scheduler by `offer` how many tasks are ready; what the scheduler does then is its own affair.

What tasks share of a callable: on sync and threads it is the caller's own object, and calls act on
it. Elsewhere a worker keeps code, which no call can change (functions of modules, closures over
numbers, texts, classes and other code), and makes anew for each task what carries state: bound
methods, callable objects, partials of objects, closures over what can be changed, functions that
assign to ``nonlocal`` variables or have defaults that can be changed. Each task begins with that
state as it was when the call was packed, whatever other tasks did, and leaves the caller's object
as it is: return what you need. Arrays of 64 kB or more that a callable holds are there once for all
tasks of a worker, and read-only. Variables of modules, of the program's own file as well, belong
to each process.
"""

from lazyflow.schedulers.registry import info

__all__ = ["info"]
