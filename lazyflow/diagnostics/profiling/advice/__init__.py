"""What to change, by what ran: each rule is a function from evidence to pieces of advice.

A rule speaks only where following it would save a good part of the time of the block, and only
of what the user's own code started: estimators have loops of their own.

    piece       `Advice`, and when it matters
    caller      what the caller does between computes
    grain       tasks and chunks that are too small, or too large
    workers     workers that are idle, wait for each other, or are too many
    data        large values that move between processes, or fill memory
    functions   functions that are called too early, compile again, or change their inputs
    rules       all of them
"""

from lazyflow.diagnostics.profiling.advice.piece import Advice
from lazyflow.diagnostics.profiling.advice.rules import RULES, advice

__all__ = ["RULES", "Advice", "advice"]
