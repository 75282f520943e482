"""How much memory there is, and memory that one process writes and others read."""
