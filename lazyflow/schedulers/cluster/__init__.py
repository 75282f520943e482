"""Schedulers on other projects' engines: distributed (dask/) and Ray (ray/).

For their users::

    compute(total, scheduler="distributed")   # the active distributed.Client, else a LocalCluster
    compute(total, scheduler=client)          # or "tcp://scheduler:8786"
    compute(total, scheduler="ray")           # the Ray that is initialised, else one of its own

``pip install "lazyflow[distributed]"`` or ``"lazyflow[ray]"`` installs the engine. A cluster that
lazyflow starts listens on this machine only, and ends with `lazyflow.shutdown` or with the program.
lazyflow never ends a cluster that the user started.

- The engine gets groups of tasks (chains and small subtrees), and each group runs in its worker as
  it would on sync. `persist` and `put` leave values in the cluster; functions and large arrays are
  sent once. Output, log records and warnings of tasks stay in the workers' own logs.
- ``num_workers=`` limits how many groups of a run the engine has at once. On distributed, groups
  of known costs are not held back where all workers together run no more tasks than that. A cluster
  that grows by its queue (``cluster.adapt()``) may exceed the limit then: give it a maximum.
- On distributed, large values go between the client and a worker directly. If the client can't
  connect to workers, they go through the scheduler, as with ``Client(direct_to_workers=False)``.
- Arrays of more than the workers' memory: on distributed, large results are kept in memory up to
  ``distributed.worker.memory.target`` (60 %) of a worker's limit, and beyond in one file of the
  worker, in its ``local_directory`` or in ``spill_folder``. ``memory_limit=`` raises. Values
  that are regrouped (rows to columns, a permutation, a long sort), and take more than a fifth of
  all workers' memory, go through files of the workers in one pass instead of the cluster. Ray
  does all of this by its own store of objects, which spills them.
- Exceptions of tasks never reach the engine's own error handling. A task that kills its workers
  fails with `WorkerDied`, and only that task fails; when the scheduler is gone, waiting ends with
  `SchedulerLost`. A kept result that is lost with its worker is made again there, unless one of its
  inputs, a large argument or a value from `put`, was lost, too: then `WorkerDied` names that input.
- ``crash_retries=`` is the number of times a task runs again after its worker died while running
  it, whatever ``allowed-failures`` of distributed and ``max_retries`` of Ray are. A task with 0 is
  a group by itself, which on distributed costs a message to the scheduler, and its lost result is
  not made again. Other tasks are charged with the deaths of all workers that had their group, and
  keep one run in a group of their own.
- A user's ``LocalCluster`` gives up a worker for good if it is not there 15 s after its first
  death, even if it had come back and died again. If workers may die often, raise
  ``distributed.deploy.lost-worker-timeout`` in dask's configuration. The cluster that lazyflow
  starts brings them back each time.
- A worker state with ``scope="thread"`` is built once for each thread of a worker; Ray ends its
  workers without a teardown. ``priority=``, ``retries=`` and ``resources=`` apply; resources that
  no worker offers raise an error. ``delayed(f, workers=["big", "10.0.0.5"])`` restricts a task to
  these workers of distributed, by name, address or host: unknown names raise an error, and if a
  worker goes away the task waits until one is back under that name. Other schedulers refuse
  ``workers=``.
- The engine's own futures among arguments, at any depth, are replaced by their values: those of
  ``client.submit`` and ``client.scatter``, and Ray's ``ObjectRef``. The values stay in the
  engine; another scheduler gets them from there.
- Other options are passed to the engine unchanged: to distributed by ``with dask.annotate(...)``
  and ``distributed.span``, also for actors made in the block; to Ray by ``with
  lazyflow.config.set(ray_options={"scheduling_strategy": ..., "runtime_env": ...})``. Tasks may
  use ``get_client``, ``worker_client`` and ``secede``. With an asynchronous client write ``await
  x``: calls that would block its loop raise an error.
- The engine's own pages name a group after its functions and its size, ``load+sum~16``. If large
  results have different users, each part goes to its own user: on distributed, a part is
  a task ``part_of_load+sum~16``, and on Ray one more result.
- Clusters keep the modules that they imported; a warning appears when one was reloaded here.

On a real cluster, make its client and continue as above:

- SLURM and other batch systems, by ``dask-jobqueue``: ``cluster = SLURMCluster(cores=8,
  memory="32GB", queue=...)``, ``cluster.scale(jobs=10)``, ``client = Client(cluster)``.
- Kubernetes, by the dask operator: ``KubeCluster(name=..., image=...)`` of
  ``dask_kubernetes.operator``, ``Client(cluster)``. For Ray the KubeRay operator;
  ``ray.init(address="auto")`` inside of it.
- A Ray cluster: ``ray start --head`` and ``ray start --address=...``, then
  ``ray.init(address="auto")``.

Install the same Python, lazyflow, cloudpickle and engine on the workers as where the program runs,
and, for distributed, lazyflow on the scheduler's machine, too. The user's modules must be
importable there, unless the functions are in the program itself. Anyone who reaches a scheduler's
port can run code: on shared networks, give the client
``security=distributed.Security(tls_ca_file=..., tls_client_cert=..., tls_client_key=...,
require_encryption=True)``, and Ray its ``RAY_USE_TLS``. Tested are clusters on one machine, with
TLS, and with workers and schedulers really killed; SLURM, Kubernetes and several machines are not.

The modules::

    scheduler.py    the part of a scheduler that is the same for every engine
    engine.py       the base class of engines: their thread, and measurements of functions

    run.py          a run from beginning to end: arrivals and failures
    group_queue.py  which tasks form a group, which groups may start, and which the engine keeps
    packing.py      groups, leaves and large literals as they are sent; tasks that can't be sent
    outcome.py      results as the engine holds and moves them
    results.py      results as the caller holds them, and the errors when they are lost

    work.py         a group inside the engine's worker, run by the loop of sync

    actors/         actors, each in a worker of the engine

Where to look::

    the order of tasks         group_queue.py: `GroupQueue`, of the groups of graph/grouping.py
    a value is dropped         group_queue.py: `GroupQueue.let_go`
    a death is charged         run.py: `Suspects`
    a large literal is shared  packing.py: `RunValues`

A compute goes through `EngineScheduler.make_run` and `start`, `EngineRun.begin`, `GroupQueue`,
`Packer`, the engine's `submit`; then, in a worker, `Work`; and back through `Engine.receive`
and `EngineRun.reported`. The engine sees one task of its own for each group. Exceptions of the
user's code never reach it: its tasks return failures as records.
"""
