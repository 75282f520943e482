"""Code shared by all schedulers: the protocol, runs, slots and futures.

The modules, in reading order:

    base.py            the protocol of schedulers, observers and requests, and its check
    lifecycle.py       a run of any kind: how it begins, ends, fails and is cancelled, and
                       what tells its observers
    run.py             a run whose tasks are called in this process, with copies, retries, checks
                       and slots
    priorities.py      the order of tasks and runs with priorities
    snapshots.py       arrays that were edited between their use and the run
    sampling.py        where its tasks spend their time
    coroutines.py      its tasks that are coroutines
    task_resources.py  the worker of a thread, and the resources that a task uses until it ends
    future.py          a handle on a value that exists or will exist
    unfinished.py      submitted work, which is finished before the program ends
    errors/            notes on exceptions, and their way to another process
"""
