"""What both sides of any wire share.

The modules, in reading order:

    calls.py         a task as it travels to a worker and is called there, stubs of tasks that are
                     kept, and errors of what can't travel
    environment.py   the caller's context variables, settings and directory, for its tasks, and the
                     versions of the user's modules that it has
    large_values.py  large arguments, recognised when they are met again
"""
