"""The contract that a scheduler or a collection must pass, and helpers for tests.

The modules, in reading order::

    contract.py     the suite to inherit, made of the parts below
    base.py         code shared by the parts: how they compute, and flags for missing abilities
    results.py      results are right, whatever the shape of the graph; also of `persist`
    failures.py     errors keep their type, and end only their task
    values.py       no task can change a value that another one sees; arrays that tasks share
    signals.py      how a test and its tasks wait for each other, in any thread or process; tasks of
                    the contract, which workers import
"""
