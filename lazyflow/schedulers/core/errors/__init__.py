"""Exceptions that tasks raise: the notes they get, and their way to another process.

The modules, in reading order:

    failures.py      the note on an exception: which task, where it was made, with what arguments
    failed_call.py   the call that an exception came from, to be made again
    records.py       exceptions as plain data, recorded in a worker and rebuilt in the caller
    tracebacks.py    tracebacks as plain data
    pickles.py       exceptions pickled so that they arrive as they were
"""
