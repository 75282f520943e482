"""Schedulers, which run plans. Read `core.base` to add one.

The modules, in reading order::

    core/         shared by all schedulers: the protocol, runs, futures, errors
    sync.py       runs tasks in the caller's thread, one after the other
    threads.py    runs them in one pool of threads: the default
    executor.py   runs them on the user's `concurrent.futures.Executor`
    remote/       code that both sides of any connection share
    processes/    runs tasks in worker processes
    cluster/      runs them on distributed and on Ray
    actors/       actors on all of these
    registry.py   finds the scheduler for a name, an object or nothing

`compute` asks the registry for the scheduler, makes a run of the plan (`core.run.Run`, or the
scheduler's own), passes it to the scheduler's `start` and sleeps in its `wait`. The run calls
`offer` to tell the scheduler how many tasks are ready; the scheduler decides the rest.

Where to look (processes/ and cluster/ have maps of their own)::

    the order of tasks         graph/plan.py: `in_order`, `choose_order`; with priorities
                               core/priorities.py
    a value is dropped         core/run.py: `Run._loop`, after its last use
    a death is charged         processes/decisions/events.py: `lost`; cluster/run.py: `Suspects`
    Ctrl-C                     api/evaluate.py: `run_to_end`; its rules are in interrupts.py
    a large literal is shared  processes/parent/values.py: `PoolMemory.argument`;
                               cluster/packing.py: `RunValues`

How tasks share a callable: on sync and threads, tasks call the caller's own object and may change
its state. Elsewhere, a worker keeps one copy of code that no call can change (functions of modules,
closures over numbers, strings, classes and other code). It makes callables with state anew for each
task: bound methods, callable objects, partials of objects, closures over mutable objects, functions
that assign to ``nonlocal`` variables or have mutable defaults. Each task begins with the state at
the time when the call was packed, whatever other tasks did, and does not change the caller's
object: return the values that you need. Arrays of 64 kB or more that a callable holds exist once
per worker, shared by its tasks, and are read-only. Each process has its own variables of modules,
including those of the program's own file.
"""

from lazyflow.schedulers.registry import info

__all__ = ["info"]
