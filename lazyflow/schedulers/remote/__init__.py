"""Code that both sides of any connection share.

The modules, in reading order:

    calls.py         a task as it is sent to a worker and called there, stubs of kept tasks, and
                     errors for objects that can't be sent
    environment.py   the caller's context variables, settings and directory, for its tasks, and its
                     versions of the user's modules
    run.py           runs whose tasks other processes call: how results get to the caller
    large_values.py  large arguments, recognised when they are used again
"""
