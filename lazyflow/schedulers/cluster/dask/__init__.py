"""Plans and actors on dask.distributed. Only this folder imports it.

    scheduler.py   which client, and the cluster that is started where there is none (local.py)
    engine.py      hands groups over to a client, and learns how they end
    client.py      whether the client is there; workers.py: which workers it reaches
    handles.py     what stands for values that the cluster keeps
    in_worker.py   groups in a worker
    actors.py      actors in a worker, and the way to them
"""
