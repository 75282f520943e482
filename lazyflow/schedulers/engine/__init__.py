"""What runs plans on engines that others made: distributed and Ray.

    run.py       a run: which tasks go together, what is under way, what arrived
    packing.py   a group of tasks as it travels
    work.py      the group inside the engine's worker, by the loop of sync
    outcome.py   results as the engine holds and moves them
    scheduler.py the part of a scheduler that is the same for every engine

The engine sees one task of its own for each group. Nothing that the user's code raises reaches
it: failures travel as records in what its tasks return.
"""
