"""`scheduler="processes"`: warm workers, results kept where they are made.

`scheduler.py` starts, awaits, abandons and ends; `channel.py` carries messages and descriptors.
What both sides share with other wires is in ``schedulers/remote/``: calls, task stubs, the
caller's environment, and versions of the user's modules.

decisions/, what is decided, without clock, process or socket:

    nodes.py        a task as the scheduler sees it, the job that a run is, a worker's books
    queues.py       ready tasks, and tasks that wait until a value can be had where they should run
    refcounts.py    the counts: who needs what, what can be dropped, what fails or is given up
    lineage.py      what is kept so that a lost value can be made again, and how it is
    selection.py    the next task for a worker; batching.py: how many go there together
    state.py        the decisions: events in, instructions out
    recovery.py     what a death costs; segments.py: who looks at which shared memory

parent/:

    job_builder.py    from a plan to a job, in the caller's thread
    remote.py         runs, and values that live elsewhere, as the rest of the library sees them
    driver.py         the thread that connects decisions, workers and runs
    event_loop.py     what it waits for
    pool.py           the worker processes: started, read from, ended; launch.py starts one
    worker_handle.py  one worker as the driver knows it
    sending.py        flights to messages; receiving.py: messages to events
    packing.py        arguments that are pickled in a thread of their own; repeats.py: advice
    putting.py        values that are put; memory.py: shared memory, as the parent has it
    functions.py      functions by number; output.py: what workers print
    notices.py        what is logged and warned of, as it is configured here
    actor_host.py     an actor, as this process sees it; actor_member.py: its process

worker/:

    worker.py        runs tasks, keeps values; service.py answers while a task runs
    following.py     the user's modules, kept at the version that the caller has
    reporting.py     records and warnings of tasks, on their way to the caller
    parent_death.py  the worker ends with its parent; nested.py: computes inside a task
    actor_worker.py  the process of an actor
"""
