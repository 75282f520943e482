"""Memory that one process writes and others read, and how much of it there is.

The modules in reading order: `available` (free memory of the machine), `copying` (by two
threads), `arena` (one memory file), `shared` (the writer's side and the reader's), `result_memory`
(memory that others write into).
"""
