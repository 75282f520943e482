"""Passes of plans that check what they return."""

from functools import wraps

from lazyflow.graph.spec import check

_MAX_TASKS = 20_000  # tasks: beyond, a check takes longer than planning may in the tests of depth


def checked(apply):
    """Return a pass that checks each plan it returns, unless that is a very large one."""

    @wraps(apply)
    def apply_and_check(plan, optimize=True):
        plan = apply(plan, optimize)
        if len(plan.tasks) <= _MAX_TASKS:
            check(plan)
        return plan

    return apply_and_check
