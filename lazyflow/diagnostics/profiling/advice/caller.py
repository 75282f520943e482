"""Rules on what the caller does between and around its computes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from lazyflow.diagnostics.profiling.advice.piece import OFTEN, Advice, matters
from lazyflow.diagnostics.profiling.evidence import Evidence
from lazyflow.diagnostics.profiling.records import RunRecord, total, under_way, union
from lazyflow.diagnostics.profiling.texts import seconds

_GAPS = 3  # of one line that make a habit
_MANY = 300  # tiny blocks of arrays, whose tasks take some time to be made: no work of the caller's


def gaps_between_computes(evidence: Evidence) -> Iterator[Advice]:
    """Workers wait while the caller works between one compute and the next."""
    ends = {run.end: run.place for _, run in evidence.parallel_runs()}
    starts = {
        run.start for _, run in evidence.parallel_runs()
        if sum(chunks.blocks for chunks in run.sights.arrays if chunks.is_tiny()) < _MANY
    }
    waits: defaultdict[str, list[float]] = defaultdict(list)
    for (_, end), (start, _) in pairwise(under_way(evidence.runs, evidence.tasks)):
        if end in ends and start in starts:
            waits[ends[end]].append(start - end)
    for place, times in waits.items():
        if len(times) >= _GAPS and matters(evidence, sum(times)):
            yield Advice(
                "gaps between computes",
                f"for {seconds(sum(times))} of {seconds(evidence.seconds)} no task ran: "
                f"{len(times):,} times the caller worked on its own after a compute, before the "
                "next one",
                "workers have nothing to do meanwhile",
                "make that work tasks too, delayed(f)(x), and compute once at the end; or go on "
                "while tasks run: x, = lazyflow.persist(x)",
                place,
            )


def computes_in_a_loop(evidence: Evidence) -> Iterator[Advice]:
    """A loop computes small graphs one after the other, so that no two tasks run at once."""
    by_place: defaultdict[str, list[tuple[int, RunRecord]]] = defaultdict(list)
    for index, run in evidence.parallel_runs():
        by_place[run.place].append((index, run))
    for place, runs in by_place.items():
        spans = [(run.start, run.end) for _, run in runs]
        in_turn = total(union(spans)) > 0.9 * total(spans)
        small = median(run.tasks for _, run in runs) <= 2
        if len(runs) < OFTEN or not small or not in_turn:
            continue
        if matters(evidence, total(spans)) and evidence.cores > 1:
            mean = sum(run.tasks for _, run in runs) / len(runs)
            size = "1 task" if mean == 1 else f"{mean:.2g} tasks"
            yield Advice(
                "computes in a loop",
                f"{len(runs):,} computes of {size} each, one after the other, took "
                f"{seconds(total(spans))}",
                "each waits for its result before the next one is made, so one worker is busy",
                "collect the lazy values and compute once: lazyflow.compute([f(x) for x in xs]); "
                "if each needs the one before, keep it lazy: x = f(x) in the loop, x.compute() "
                "after it",
                place,
            )
