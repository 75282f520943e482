"""Code that both sides of any connection share.

The modules, in reading order:

    calls.py         a task as it is sent to a worker and called there, stubs of kept tasks, and
                     errors for objects that can't be sent
    environment.py   the caller's process as tasks see it: context variables, settings, directory,
                     versions of modules, environment variables, logging and warnings
    large_values.py  large arguments, recognised when they are used again
"""
