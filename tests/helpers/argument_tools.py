"""Tasks that return what they were given, and what tasks and callers get."""

import dataclasses

from lazyflow import delayed

same = delayed(lambda x: x)
pair = delayed(lambda *a, **k: (a, k))
one = delayed(lambda: 1)()
two = delayed(lambda: 2)()


def given_to_task(x, **options):
    """Return what a task gets for this argument."""
    got = []
    delayed(lambda x: got.append(x), **options)(x).compute(scheduler="sync")
    return got[0]


def given_to_call(*args, **kwargs):
    """Return what a task gets for these arguments, and what its caller gets of them."""
    got = []

    def keep(*args, **kwargs):
        got.append((args, kwargs))
        return args, kwargs

    returned = delayed(keep)(*args, **kwargs).compute(scheduler="sync")
    return got[0], returned


@dataclasses.dataclass
class Box:
    inside: object
    other: object = 3
