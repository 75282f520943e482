"""Passes over expressions: cheaper equals, found by looking at all wanted arrays at once.

`pipeline` has the list of the passes; each has a module of its own, and the last one is
`fuse`, which makes a `group_program` of each group of operations.
`spec` has the rules that hold after each of them.
"""
