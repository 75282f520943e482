"""What runs plans on engines that others made: distributed (dask/) and Ray (ray/).

For their users::

    compute(total, scheduler="distributed")   # the active distributed.Client, else a LocalCluster
    compute(total, scheduler=client)          # or "tcp://scheduler:8786"
    compute(total, scheduler="ray")           # the Ray that is initialised, else one of its own

``pip install "lazyflow[distributed]"`` or ``"lazyflow[ray]"`` brings the engine. A cluster that
lazyflow starts listens on this machine only, and ends by `lazyflow.shutdown` or with the program;
one that the user has started is left alone.

- The engine gets groups of tasks, chains and small subtrees, and each group runs in its worker as
  it would on sync. `persist` and `put` leave values in the cluster; functions and large arrays
  travel once. What tasks print, log and warn of stays in the workers' own logs.
- On distributed, large values go between the client and a worker directly. Where the client can't
  connect to workers they go through the scheduler, as with ``Client(direct_to_workers=False)``.
- What a task raises never reaches the engine's own handling of errors. A task that kills its
  workers fails alone with `WorkerDied`; when the scheduler is gone, waiting ends with
  `SchedulerLost`. A kept result that dies with its worker is made again there, unless a large
  argument or a value that was put, of which it was made, died as well: then `WorkerDied` names it.
- ``crash_retries=`` says how often a task runs again whose worker died while it ran, whatever
  ``allowed-failures`` of distributed and ``max_retries`` of Ray are. With 0 it is a group by
  itself, which on distributed costs a message to the scheduler, and a result of it that is lost is
  not made again. Others are charged with the deaths of all workers that had their group, and keep
  one run that they get alone.
- A ``LocalCluster`` of the user's gives a worker up for good that is not there 15 s after it ended
  once, also when it had come back and ended again: where workers may die often, raise
  ``distributed.deploy.lost-worker-timeout`` in dask's configuration. The cluster that lazyflow
  starts brings them back each time.
- A worker state of ``scope="thread"`` is built once for each thread of a worker; Ray ends its
  workers without a teardown. ``priority=``, ``retries=`` and ``resources=`` hold; what nobody
  offers is refused. ``delayed(f, workers=["big", "10.0.0.5"])`` names the only workers of
  distributed that may run a task, by name, address or host: one that is not there is refused, and
  for one that goes away the task waits until it is back under that name. Other schedulers refuse
  ``workers=``.
- Futures of the engine's own among arguments, at any depth, are their values: those that
  ``client.submit`` and ``client.scatter`` give, and Ray's ``ObjectRef``. The values stay in the
  engine; another scheduler gets them from there.
- What else an engine can be told it gets as it is: distributed by ``with dask.annotate(...)`` and
  ``distributed.span``, also for actors that are made in the block; Ray by ``with
  lazyflow.config.set(ray_options={"scheduling_strategy": ..., "runtime_env": ...})``. Tasks may
  use ``get_client``, ``worker_client`` and ``secede``. With an asynchronous client write ``await
  x``: what would block its loop is refused.
- On the engines' own pages a group is called by its functions and its size, ``load+sum~16``. Of
  large results that go to different users each part is sent to its own: on distributed, a part is
  a task ``part_of_load+sum~16``, and on Ray one more result.
- Clusters keep the modules that they imported, and a warning says so when one was reloaded here.

On a real cluster, make its client and go on as above:

- SLURM and other batch systems, by ``dask-jobqueue``: ``cluster = SLURMCluster(cores=8,
  memory="32GB", queue=...)``, ``cluster.scale(jobs=10)``, ``client = Client(cluster)``.
- Kubernetes, by the dask operator: ``KubeCluster(name=..., image=...)`` of
  ``dask_kubernetes.operator``, ``Client(cluster)``. For Ray the KubeRay operator;
  ``ray.init(address="auto")`` inside of it.
- A Ray cluster: ``ray start --head`` and ``ray start --address=...``, then
  ``ray.init(address="auto")``.

Install the same Python, lazyflow, cloudpickle and engine on the workers as where the program runs,
and, for distributed, lazyflow where its scheduler runs, too; modules of the user's must be
importable there, or their functions be of the program itself. Whoever reaches a scheduler's port
can run code: on networks that others use, give the client
``security=distributed.Security(tls_ca_file=..., tls_client_cert=..., tls_client_key=...,
require_encryption=True)``, and Ray its ``RAY_USE_TLS``. Tested are clusters on one machine, with
TLS, and workers and schedulers really killed; SLURM, Kubernetes and several machines are not.

The modules::

    scheduler.py    the part of a scheduler that is the same for every engine
    engine.py       the base class of engines: their thread, and what they learn of functions

    run.py          a run: from its beginning over what arrives and what goes wrong to its end
    group_queue.py  which tasks go together, which groups may go, and what the engine keeps of them
    packing.py      what a run sends: groups, leaves and large literals; what can't be sent
    outcome.py      results as the engine holds and moves them
    results.py      what the caller holds of them, and the errors when they are lost

    work.py         a group inside the engine's worker, by the loop of sync

    actors/         actors, each of them in a worker of the engine

A compute goes through `EngineScheduler.make_run` and `start`, `EngineRun.begin`, `GroupQueue`,
`Packer`, the engine's `submit`; then, in a worker, `Work`; and back by `Engine.receive`
and `EngineRun.reported`. The engine sees one task of its own for each group. Nothing that the
user's code raises reaches it: failures travel as records in what its tasks return.
"""
