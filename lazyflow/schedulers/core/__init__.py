"""What every scheduler stands on: the protocol, runs, slots, events and futures.

The modules, in reading order:

    base.py            the protocol of schedulers, observers and requests, and its check
    lifecycle.py       a run of any kind: how it begins, ends, fails and is cancelled, and what its
                       observers hear of it
    run.py             a run whose tasks are called in this process, with copies, retries, checks
                       and slots
    priorities.py      which task, and which run, is next when some have a priority
    snapshots.py       arrays that were edited between their use and the run
    sampling.py        where its tasks spend their time
    coroutines.py      its tasks that are coroutines
    task_resources.py  the worker that a thread is, and what a task has in use until it ends
    event.py           what threads sleep at, so that Ctrl-C always wakes them
    future.py          a handle on a value that exists or will
    unfinished.py      submitted work, which the end of the program finishes
    end_of_python.py   how a scheduler ends with the interpreter
    errors/            notes on exceptions, and their way to another process
"""
