"""Storage of values while a run needs them, and their transfer between tasks and processes.

The modules in reading order:

=============  ===================================================================================
values         values between tasks of one process: read-only views, and copies for each consumer
protected      the same in containers, so that no task can change another's input
ownership      results for callers: their own and writable, whatever else holds the memory
sizes          bytes of values, estimated, and as text
spilling       values kept below a memory limit, and the file of those beyond it
exchange_file  a file through which tasks exchange parts beyond the memory limit
kept_values    the same of frames, sparse matrices and containers of arrays
private_files  files that no other user can have created
memory/        shared memory: `Arenas` on the writer's side, `Mappings` on the reader's
pickling/      `encode` and `decode`: a value as a short stream and buffers in shared memory
=============  ===================================================================================

A result on threads passes through `values` to each consumer and through `ownership` to the caller.
A result that leaves its process is pickled by ``pickling.pickler``, its large buffers are written
to an arena by ``pickling.serialize``, and the receiver's arrays use the memory of that arena.
"""
