"""Containers of users' classes that change what is put into them arrive with what they have."""

from collections import OrderedDict, UserDict, defaultdict, deque

import pytest

from lazyflow import compute, config, delayed


class Meta(type):
    def __call__(cls, *args, **kwargs):
        made = super().__call__()
        for key, value in dict(*args, **kwargs).items():
            made[key] = value
        return made


class Prefixed(dict, metaclass=Meta):
    def __setitem__(self, key, value):
        super().__setitem__(f"p_{key}", value)


class PrefixedOrdered(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(f"p_{key}", value)


class PrefixedDefault(defaultdict):
    def __setitem__(self, key, value):
        super().__setitem__(f"p_{key}", value)


class Twice(list):
    def append(self, item):
        super().append(item)
        super().append(item)

    def extend(self, items):
        for item in items:
            self.append(item)


class Backwards(deque):
    def extend(self, items):
        super().extendleft(items)

    append = deque.appendleft


def filled(container, inside):
    if isinstance(container, dict):
        container["a"] = inside
        container["b"] = 2
    else:
        container.append(inside)
        container.append(2)
    return container


MAKERS = [Prefixed, PrefixedOrdered, lambda: PrefixedDefault(list), Twice, Backwards]


def stored(container):
    if isinstance(container, dict):
        return list(dict.items(container)), list(container)
    return list(container)


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
@pytest.mark.parametrize("make", MAKERS)
def test_every_way_gives_the_items_that_are_stored(make, scheduler):
    def inside(x):
        return stored(x), type(x).__name__

    wanted = inside(filled(make(), [1]))
    with config.set(scheduler=scheduler):
        result = delayed(lambda: filled(make(), [1]))()
        given = filled(make(), [1])
        holding = filled(make(), delayed(lambda: [1])())
        assert delayed(inside)(given).compute() == wanted
        assert delayed(lambda xs: inside(xs[0]))([given]).compute() == wanted
        assert delayed(inside)(holding).compute() == wanted
        assert compute(delayed(inside)(result), delayed(inside)(result)) == (wanted, wanted)
        assert [inside(x) for x in compute(result, result)] == [wanted, wanted]
        assert inside(compute(holding)[0]) == wanted
        assert stored(given) == wanted[0]


def test_other_mappings_are_handed_over_as_they_are():
    given = UserDict(a=1)
    assert delayed(lambda x: x is given)(given).compute(scheduler="sync")
