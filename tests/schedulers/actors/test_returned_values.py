"""What tasks and methods return may have to be made yet: every scheduler waits for every other."""

from itertools import product

import pytest
from actor_examples import AsyncGiver, Giver, unfinished

from lazyflow import submit

PATIENCE = 30.0  # seconds

FORMS = ["submitted", "persisted", "user", "lazy", "call of an actor", "chain"]


@pytest.mark.parametrize("inner", ["sync", "threads", "processes", "distributed"])
def test_a_value_that_is_returned_unfinished_is_waited_for(
    request: pytest.FixtureRequest, scheduler: str, inner: str
) -> None:
    if inner == "distributed":
        if scheduler in ("processes", "ray"):
            pytest.skip("a worker would start a cluster of its own")
        request.getfixturevalue("client")
    giver, another = Giver(), AsyncGiver()
    ways = {
        "task": lambda *what: submit(unfinished, *what),
        "method": giver.give, "async method": another.give,
    }
    cases = [*product(ways, FORMS), ("method", "coroutine"), ("async method", "coroutine")]
    made = {(kind, form): ways[kind](form, inner) for kind, form in cases}
    found = {what: future.result(timeout=PATIENCE) for what, future in made.items()}
    assert found == dict.fromkeys(made, 1)
