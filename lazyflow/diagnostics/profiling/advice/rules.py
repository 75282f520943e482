"""All rules, in the order in which their advice is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lazyflow.diagnostics.profiling.advice.caller import computes_in_a_loop, gaps_between_computes
from lazyflow.diagnostics.profiling.advice.data import (
    captured_data,
    large_values_again,
    memory_near_limit,
    results_sent_back,
)
from lazyflow.diagnostics.profiling.advice.functions import (
    calls_before_delayed,
    compiled_again,
    refused_changes,
)
from lazyflow.diagnostics.profiling.advice.grain import (
    chunks_too_large,
    chunks_too_small,
    tasks_too_short,
)
from lazyflow.diagnostics.profiling.advice.piece import Advice
from lazyflow.diagnostics.profiling.advice.workers import (
    chains,
    lock_bound_threads,
    more_threads_than_cores,
    unbalanced_tasks,
)
from lazyflow.diagnostics.profiling.evidence import Evidence

RULES: tuple[Callable[[Evidence], Iterator[Advice]], ...] = (
    gaps_between_computes, computes_in_a_loop, calls_before_delayed, tasks_too_short,
    chunks_too_small, chunks_too_large, lock_bound_threads, more_threads_than_cores,
    unbalanced_tasks, chains, large_values_again, results_sent_back, captured_data,
    compiled_again, refused_changes, memory_near_limit,
)


def advice(evidence: Evidence) -> list[Advice]:
    """Return the advice of all rules."""
    return [found for rule in RULES for found in rule(evidence)]
