"""Passes over expressions: cheaper equals, found by looking at all wanted arrays at once.

`rewrites` has the passes and their list; the last one is `fusion`, which makes a program of each
group of operations. `spec` has the rules that hold after each of them, and `memory` tells how much
memory the tasks of what comes out will take.
"""
