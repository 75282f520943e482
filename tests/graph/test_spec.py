"""The rules of plans find plans that break them; the suite checks them after every pass."""

import os
import subprocess
import sys

import pytest

from lazyflow import compute, delayed
from lazyflow.api.evaluate import observers
from lazyflow.graph import plan
from lazyflow.graph.plan import PASSES, Plan, PlanPass, explain_plan, make_plan
from lazyflow.graph.spec import RULES, broken_rules, check
from lazyflow.schedulers.core.base import Observer

inc = delayed(lambda x: x + 1)
add = delayed(lambda x, y: x + y)
urgent = delayed(lambda x: x, priority=2)
editing = delayed(lambda x: x, mutates=True)


def graph():
    """Return two wanted tasks whose plan is

    number   0  1    2     3     4         5        6    7    8      9    10
    task     7  inc  inc   inc   editing   urgent   5    inc  inc    add  inc
    head     0  1    1     1     1         5        6    7    7      9    10
    """
    values = delayed(5), delayed(7)
    wanted = inc(inc(values[0]))
    return [inc(add(urgent(editing(inc(inc(inc(values[1]))))), wanted)), wanted]


def put(name, at, value):
    """Return a change of one entry of a plan's list or dict."""
    return lambda plan: getattr(plan, name).__setitem__(at, value)


def with_fields(**fields):
    """Return a change that makes a plan with other fields, which a plan itself refuses."""

    def change(plan):
        made = object.__new__(Plan.__base__)
        for name in Plan.__base__.__slots__:
            setattr(made, name, fields.get(name, getattr(plan, name)))
        made.__class__ = Plan
        return made

    return change


#: Changes of the plan of `graph`, under the beginning of the rule that they break.
CHANGES = {
    "the lists have": [
        lambda plan: plan.consumers.pop() and None,
        lambda plan: plan.needs.append(0),
        lambda plan: plan.inputs.append(None),
        with_fields(heads=[0]),
        with_fields(end=3),
    ],
    "all numbers": [
        lambda plan: plan.outputs.append(plan.end),
        lambda plan: plan.ready.append(-1),
        lambda plan: plan.slow.add(99),
        put("priorities", 99, 1),
        put("consumers", 0, 12),
    ],
    "a task is in": [lambda plan: put("tasks", 1, plan.tasks[0])(plan)],
    "inputs come before": [put("inputs", 1, (3,)), put("inputs", 1, (1,))],
    "the inputs are": [
        put("inputs", 0, ()), put("inputs", 9, (0, 8)), put("inputs", 9, (5,)),
        put("inputs", 1, None),
    ],
    "needs counts": [put("needs", 1, 5), put("needs", 11, 1)],
    "consumers are": [
        put("consumers", 0, 3), put("consumers", 0, [1]), lambda plan: plan.outputs.append(0)
    ],
    "every result": [put("consumers", 0, None)],
    "tasks without": [
        lambda plan: plan.leaves.reverse(), lambda plan: plan.ready.append(plan.leaves.pop())
    ],
    "what planning knows": [
        lambda plan: plan.priorities.clear(),
        lambda plan: plan.slow.clear(),
        with_fields(may_merge=True),
    ],
    "a unit": [
        put("heads", 2, 3), put("heads", 9, 1), put("heads", 1, 0), put("heads", 5, 1),
        with_fields(heads=[0, 1, 1, 1, 1, 5, 6, 7, 7, 7, 7]),
    ],
}  # fmt: skip


def test_the_changes_below_are_of_this_plan():
    plan = make_plan(graph())
    assert (plan.end, plan.outputs) == (11, [10, 8])
    assert (plan.heads, plan.leaves) == ([0, 1, 1, 1, 1, 5, 6, 7, 7, 9, 9], [0, 6])
    assert (plan.priorities, plan.slow) == ({5: 2}, {4})


@pytest.mark.parametrize(
    ("start", "change"),
    [(start, change) for start, changes in CHANGES.items() for change in changes],
)
def test_a_broken_plan_is_found(start, change):
    plan = make_plan(graph())
    plan = change(plan) or plan
    (rule,) = [sentence for sentence in RULES if sentence.startswith(start)]
    with pytest.raises(AssertionError, match=r"a plan of \d+ tasks is broken\n") as error:
        check(plan)
    lines = str(error.value).splitlines()[1:]
    assert lines == broken_rules(plan)
    assert any(line.startswith(f"{rule}: ") for line in lines), lines


def test_every_rule_is_broken_above():
    for sentence in RULES:
        assert any(sentence.startswith(start) for start in CHANGES), sentence


def test_few_of_many_violations_are_shown():
    plan = make_plan([inc(i) for i in range(10)], optimize=False)
    plan.needs[:10] = [5] * 10
    (line,) = broken_rules(plan)
    assert line.endswith("task 2 needs 5, and has 0; and 7 more")


def test_sound_plans_break_no_rule():
    for wanted in (graph(), [], [inc(1)], list(delayed(divmod, nout=2)(7, 2))):
        for optimize in (True, False):
            check(make_plan(wanted, optimize))


@pytest.mark.parametrize("at", range(len(PASSES)))
def test_the_suite_checks_plans_after_every_pass(at, monkeypatch):
    def broken(made, optimize):
        made.needs[0] += 1
        return made

    passes = list(PASSES)
    passes[at] = PlanPass("break", broken, lambda before, after: "")
    monkeypatch.setattr(plan, "PASSES", passes)
    with pytest.raises(AssertionError, match="needs counts"):
        make_plan([inc(1)])
    monkeypatch.setattr(plan, "check_plan", None)
    make_plan([inc(1)])


EDITS = {
    "outputs": lambda made: made.outputs.reverse(),  # the rules above allow it
    "needs": lambda made: made.needs.__setitem__(0, 7),
    "consumers": lambda made: made.consumers[1].append(1),
    "inputs": lambda made: made.inputs.append(None),
    "tasks": lambda made: made.tasks.reverse(),
    "slow": lambda made: made.slow.add(0),
    "priorities": lambda made: made.priorities.update({1: 5}),
}


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
@pytest.mark.parametrize("field", EDITS)
def test_a_plan_that_is_edited_in_its_run_is_found_at_the_end(field, scheduler, monkeypatch):
    class Edits(Observer):
        def task_ended(self, run, i):
            ended.append(i)
            if len(ended) == 4:  # so that the run itself is not led astray
                EDITS[field](run.plan)

    ended, x = [], inc(inc(1))
    wanted = [add(x, x), inc(x)]
    token = observers.set((Edits(),))
    try:
        words = f"a plan of 4 tasks was edited while it ran: its {field}\\."
        with pytest.raises(AssertionError, match=words):
            compute(wanted, scheduler=scheduler, num_workers=1)
        ended.clear()
        monkeypatch.setattr(plan, "watch_plan", None)
        if field in ("slow", "priorities"):
            assert compute(wanted, scheduler=scheduler, num_workers=1) == ([6, 4],)
    finally:
        observers.reset(token)


@pytest.mark.parametrize(
    ("value", "is_on"), [(None, False), ("", False), ("0", False), ("No", False), ("1", True)])
def test_checks_are_switched_on_by_the_environment(value, is_on):
    given = {} if value is None else {"LAZYFLOW_CHECK": value}
    code = "import lazyflow.graph.plan; print(lazyflow.graph.plan.check_plan is not None)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **given}, capture_output=True, text=True)
    assert done.stdout == f"{is_on}\n"


def test_the_log_has_what_each_pass_did(caplog):
    with caplog.at_level("DEBUG", "lazyflow.passes"):
        make_plan([delayed(max)(inc(1), inc(1))])
    lines = [record.getMessage() for record in caplog.records]
    assert lines == explain_plan([delayed(max)(inc(1), inc(1))]).splitlines()[1:]


def test_words_that_fail_fail_no_plan(caplog, monkeypatch):
    silent = PlanPass("silent", lambda made, optimize: made, lambda before, after: 1 / 0)
    monkeypatch.setattr(plan, "PASSES", [*PASSES, silent])
    with caplog.at_level("DEBUG", "lazyflow.passes"):
        make_plan([inc(1)])
    assert caplog.records[-1].getMessage() == "silent: what it did can't be told"
    assert caplog.records[-1].exc_info[0] is ZeroDivisionError


def test_why_no_chain_is_a_unit():
    one = delayed(lambda x: x, priority=1)(inc(1))
    shared = inc(2)
    words = explain_plan([one, add(inc(shared), inc(shared))]).splitlines()[2]
    assert words == (
        "fuse: no task runs in one unit with its only input: others use 2 of these 3 inputs, and 1 "
        "have other options")
