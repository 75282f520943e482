"""Actors that an engine keeps in its workers: the parts that are the same for all engines.

    link.py     the caller's end: the port of all actors, the link to each
    worker.py   the end inside the engine's worker
    journal.py  what goes between the ends, and a file that outlives the process: what was done

See `lazyflow.schedulers.actors` for what actors of all schedulers have in common.
"""
