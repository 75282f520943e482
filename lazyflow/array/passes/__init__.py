"""Passes over expressions: rewrites to cheaper equals, for all wanted arrays at once.

`rewrites` has the passes and their list (`PASSES`). The last is `fusion`: it decides which chains
of elementwise operations, and which reductions on top, become one program per block. `spec` has the
rules that hold after each pass, `words` what passes share to say what they did and why not more,
and `memory` estimates the memory of the tasks.
"""
