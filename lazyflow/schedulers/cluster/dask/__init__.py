"""Plans and actors on dask.distributed. Only this folder imports it.

    scheduler.py   the choice of a client
    engine.py      submits groups by a client, and handles their ends
    client.py      a reference to a client, and handles of the values that its cluster keeps
    workers.py     the workers of its cluster, which of them may run a group, and the cluster that
                   is started where there is none
    in_worker.py   groups in a worker
    worker_memory.py  their large results there, in a file beyond the worker's limit
    worker_files.py  files of workers through which tasks exchange parts of results
    actors.py      actors in a worker, and the way to them
"""
