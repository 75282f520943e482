"""Exceptions that tasks raise: the notes they get, and their way to another process.

The modules, in reading order:

    words.py     values and arguments as short, harmless text
    failures.py  the note on an exception: the task, the line that made it, and its arguments
    records.py   exceptions and tracebacks as plain data: recorded in a worker, rebuilt here
"""
