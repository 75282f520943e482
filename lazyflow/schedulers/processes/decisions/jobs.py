"""Events of jobs: they begin, end, or need less than they did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lazyflow.schedulers.processes.decisions.batching import assign
from lazyflow.schedulers.processes.decisions.nodes import (
    DONE,
    FAILED,
    MISSING,
    MIXED,
    SENT,
    WAITING,
    Job,
    Node,
)
from lazyflow.schedulers.processes.decisions.queues import purge
from lazyflow.schedulers.processes.decisions.state import State


def add_job(state: State, job: Job, failed: Iterable[tuple[Node, Any]] = ()) -> None:
    """Take in a job whose nodes are linked; its inputs from other jobs are counted in here.

    `failed` are nodes that can't run, with their errors.
    """
    failed = list(failed)
    for node in job.nodes:
        if node.pinned:
            node.stays = True
        if node.phase == DONE or node.open or node.value is not MISSING:
            job.given.add(node)
        if node.phase == DONE:
            continue
        if node.packed == ():
            state.lineage.pack(node)
        for source in node.distinct:
            phase = source.phase
            if phase == SENT:
                node.flying += 1
                if node.site is not source.home:
                    node.site = source.home if node.site is None else MIXED
            elif phase != DONE:
                node.open += 1
                if phase == FAILED:
                    failed.append((node, source.value))
            if source.job is not job:
                _depend(job, node, source)
    job.lineage_size = len(job.nodes) + sum(d.lineage_size for d in job.depends)
    job.seconds = sum(d.seconds for d in job.depends)
    state.size = max(state.size, job.cap)
    state.jobs[job.background][job] = None
    for node, error in failed:
        state.refcounts.fail_all(node, error)
    for node in reversed(job.nodes):  # the first in the plan on top of the stacks
        if node.phase == WAITING and not node.open and not node.flying:
            state.queues.make_ready(node)
    assign(state)


def _depend(job: Job, node: Node, source: Node) -> None:
    """Let a node use a value of another job."""
    source.users.append(node)
    source.left += 1
    source.unsent += 1
    if source.job not in job.depends:
        job.depends.add(source.job)
        source.job.dependents += 1


def end_job(state: State, job: Job) -> None:
    """Give up what a job still wanted: it is over. Values of it that are held stay."""
    if job.over:
        return
    job.over = True
    state.jobs[job.background].pop(job, None)
    was_needed = False
    for node in reversed(job.nodes):
        is_wanted = node.want and node not in job.delivered
        if node.pinned and node not in job.delivered:
            node.pinned = False
            node.left -= 1
        phase = node.phase
        if phase < SENT:
            if is_wanted or not node.left:  # tasks of other jobs that wait for it fail
                was_needed = True
                state.refcounts.abandon(state.refcounts.give_up_one(node))
        elif not node.left:
            state.refcounts.let_go(node)
    if was_needed:
        purge(state.workers)
    _run_later_again(state, job)
    state.refcounts.ended.append(job)
    state.lineage.sweep()


def _run_later_again(state: State, job: Job) -> None:
    """Run the tasks of an ended job again that returned a lazy value, and that others need.

    The runs that made those values are over with the job.
    """
    later, job.later = job.later, {}
    lost = []
    for node in later:
        node.distinct = tuple(dict.fromkeys(node.inputs))
        node.value = MISSING  # it may be at hand, and not be pickled yet
        lost += state.lineage.count_in(node)
    for node in (*later, *state.lineage.remake(lost)):
        state.refcounts.requeue(node)
    if later:
        assign(state)


def give_up(state: State, nodes: Iterable[Node]) -> None:
    """Give tasks up that nobody needs."""
    unneeded = set(nodes)
    for node in unneeded:
        if node.pinned and node.phase < SENT and node not in node.job.delivered:
            node.pinned = False
            node.left -= 1
    state.refcounts.abandon([n for n in unneeded if n.phase < SENT], unneeded)
    state.lineage.sweep()
