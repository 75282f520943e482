"""What every scheduler stands on: the protocol, runs, slots, events and futures.

The modules, in reading order:

    base.py              the protocol of schedulers, observers and requests, and its check
    lifecycle.py         a run of any kind: how it begins, ends, fails and is cancelled
    run.py               a run whose tasks are called in this process
    made_runs.py         how runs are made, for all who want one
    slow_path.py         its calls that need copies, retries or checks
    priorities.py        which task, and which run, is next when some have a priority
    program_observer.py  observers that also hear what the program around runs does
    observing.py         its observers
    task_timer.py        how long its tasks took, for observers that ask
    sampling.py          where its tasks spend their time, likewise
    compiling.py         how long Numba compiled in them, likewise
    coroutines.py        its tasks that are coroutines
    current_worker.py    the worker that the current thread is
    slots.py             how many tasks of a run may run at once
    task_resources.py    what a task has in use, and gives back when it ends
    event.py             what threads sleep at, so that Ctrl-C always wakes them
    future.py            a handle on a value that exists or will
    unfinished.py        submitted work, which the end of the program finishes
    end_of_python.py     how a scheduler ends with the interpreter
    errors/              notes on exceptions, and their way to another process
"""
