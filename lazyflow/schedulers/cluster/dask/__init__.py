"""Plans and actors on dask.distributed. Only this folder imports it.

    scheduler.py   the choice of a client; local.py: the cluster that is started where there is none
    engine.py      submits groups by a client, and handles their ends
    client.py      a reference to a client; workers.py: the workers of its cluster
    handles.py     handles of values that the cluster keeps
    in_worker.py   groups in a worker
    actors.py      actors in a worker, and the way to them
"""
