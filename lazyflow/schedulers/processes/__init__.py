"""`scheduler="processes"`: warm workers, results kept where they are made.

What is decided, without clock, process or socket:

    nodes.py      a task as the scheduler sees it, the job that a run is, a worker's books
    queues.py     ready tasks, and tasks that wait until a value can be had where they should run
    refcounts.py      the counts: who needs what, what can be dropped, what fails or is given up
    lineage.py    what is kept so that a lost value can be made again, and how it is
    selection.py   the next task for a worker; batching.py: how many go there together
    state.py      the decisions: events in, instructions out
    recovery.py   what a death costs

In the parent:

    scheduler.py  start, wait, abandon, info, shutdown
    job_builder.py    from a plan to a job, in the caller's thread
    remote.py     runs, and values that live elsewhere, as the rest of the library sees them
    driver.py     the thread that connects decisions, workers and runs
    event_loop.py   what it waits for
    pool.py       the worker processes: started, read from, ended; launch.py starts one
    worker_handle.py       one worker as the driver knows it
    sending.py    flights to messages; receiving.py: messages to events
    memory.py     shared memory: segments.py counts who looks at what
    task_stub.py   tasks without what they lead to, for recipes and messages
    functions.py  functions by number; output.py: what workers print
    versions.py   which version of the user's modules this program has
    notices.py    what is logged and warned of, as it is configured here

On both sides, and in the worker:

    calls.py         a task as it travels, and how it is called
    channel.py       messages and descriptors on a socket
    environment.py  context variables and settings of the caller
    worker.py        runs tasks, keeps values; service.py answers while a task runs
    following.py     the user's modules, kept at the version that the caller has
    report.py     records and warnings of tasks, on their way to the caller
    parent_death.py      the worker ends with its parent; nested.py: computes inside a task
"""
