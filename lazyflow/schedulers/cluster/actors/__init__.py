"""Actors that an engine keeps in its workers: the parts that are the same for all engines.

    link.py     the caller's end: the port of all actors, the link to each
    worker.py   the end inside the engine's worker
    journal.py  the messages between the ends, and a file of the calls that outlives the process

See `lazyflow.schedulers.actors` for the actors of all schedulers.
"""
