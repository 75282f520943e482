"""What both sides of any wire share.

The modules, in reading order:

    calls.py         a task as it travels to a worker, and how it is called there
    environment.py   the caller's context variables, settings and directory, for its tasks
    versions.py      the versions of the user's modules that the caller has
    task_stub.py     tasks that do not keep their inputs alive, for values that are made again
    large_values.py  large arguments, recognised when they are met again
    failures.py      errors of values that can't be pickled, and of calls that failed in a worker
"""
