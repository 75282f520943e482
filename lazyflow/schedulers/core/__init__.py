"""Code shared by all schedulers: the protocol, runs and futures.

The modules, in reading order:

    base.py            the protocol of schedulers, observers and requests, and its check
    run.py             a run: how it begins, ends, fails and is cancelled; and one whose tasks
                       are called by threads of this process
    slow_calls.py      its calls with copies, retries and checks
    observing.py       events for its observers
    priorities.py      the order of tasks and runs with priorities
    snapshots.py       arrays that were edited between their use and the run
    sampling.py        where its tasks spend their time
    coroutines.py      its tasks that are coroutines
    task_resources.py  the worker of a thread, and the resources that a task uses until it ends
    future.py          a handle on a value that exists or will exist
    unfinished.py      submitted work, which is finished before the program ends
    errors/            notes on exceptions, and their way to another process
"""
