"""Memory that one process writes and others read, and how much of it there is.

The modules in reading order: `ranges` (free ranges), `available` (what the machine can still
give), `copying` (by two threads), `arena` (one memory file), `shared` (the writer's side),
`mappings` (the reader's side), `lent` (memory that others write into).
"""
