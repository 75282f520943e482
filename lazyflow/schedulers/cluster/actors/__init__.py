"""Actors that an engine keeps in its workers: the parts that are the same for all engines.

    link.py      the caller's end: the port of all actors, the link to each
    protocol.py  what goes from one end to the other
    worker.py    the end inside the engine's worker
    journal.py   what an actor has done, in a file that outlives its process

See `lazyflow.schedulers.actors` for what actors of all schedulers have in common.
"""
