"""What runs plans on engines that others made: distributed (dask/) and Ray (ray/).

    submission.py      the half of a run that hands groups over: which tasks together, and when
    run.py             the whole: what arrives, what goes wrong, and the end
    groups.py          what it is made of
    worker_filter.py   which workers may run a group
    packing.py         a group of tasks as it travels
    work.py            the group inside the engine's worker, by the loop of sync
    worker_threads.py  the threads of that worker in which groups run
    outcome.py         results as the engine holds and moves them
    results.py         what the caller holds of values that the engine keeps
    scheduler.py       the part of a scheduler that is the same for every engine

    actor_host.py      an actor as the caller's process sees it: its calls, their inputs, its deaths
    connection.py      the way to it, which each engine has its own of
    actor_work.py      the actor inside the engine's worker
    journal.py         what it has done, in a file that outlives its process

The engine sees one task of its own for each group. Nothing that the user's code raises reaches
it: failures travel as records in what its tasks return.
"""
