"""Lazy values are found wherever they stand in the arguments; everything else arrives as it was."""

import collections
import copy
import dataclasses
import typing
from collections import OrderedDict, defaultdict, deque

import numpy as np
import pytest
from argument_tools import Box, given_to_task, one, pair, same, two
from hypothesis import given
from hypothesis import strategies as st

from lazyflow import compute, delayed

# -- a property: eager and lazy agree on nested containers ----------------------------------


class Point(typing.NamedTuple):
    x: object
    y: object = 7


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    inside: object


class Leaf(int):
    """A value that stands for a lazy one, until it is made one."""


scalars = st.none() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False)
leaves = st.integers(0, 9).map(Leaf)


def containers(inner):
    hashable = scalars | leaves
    return st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(hashable, inner, max_size=3),
        st.sets(hashable, max_size=4),
        st.frozensets(hashable, max_size=4),
        st.builds(slice, inner, inner, inner),
        st.builds(Point, inner, inner),
        st.builds(Box, inner),
        st.builds(Frozen, inner),
        st.lists(inner, max_size=3).map(deque),
        st.dictionaries(hashable, inner, max_size=3).map(OrderedDict),
    )


nested = st.recursive(scalars | leaves, containers, max_leaves=12)


def transformed(x, leaf):
    """Rebuild a nested value with `leaf` called on every Leaf."""
    def go(v):
        return transformed(v, leaf)

    match x:
        case Leaf():
            return leaf(int(x))
        case Point():
            return Point(*map(go, x))
        case list() | tuple() | set() | frozenset() | deque():
            return type(x)(map(go, x))
        case dict():
            return type(x)((go(k), go(v)) for k, v in x.items())
        case slice():
            return slice(go(x.start), go(x.stop), go(x.step))
        case Box():
            return Box(go(x.inside), x.other)
        case Frozen():
            return Frozen(go(x.inside))
    return x


def told(x):
    """Write a nested value as text that tells types and order; sets sorted."""
    match x:
        case Point() | list() | tuple() | deque():
            return f"{type(x).__name__}({', '.join(map(told, x))})"
        case set() | frozenset():
            return f"{type(x).__name__}({', '.join(sorted(map(told, x)))})"
        case dict():
            items = [f"{told(k)}: {told(v)}" for k, v in x.items()]
            return f"{type(x).__name__}({', '.join(items)})"
        case slice():
            return f"slice({told(x.start)}, {told(x.stop)}, {told(x.step)})"
        case Box():
            return f"Box({told(x.inside)}, {told(x.other)})"
        case Frozen():
            return f"Frozen({told(x.inside)})"
    return repr(x)


@given(nested)
def test_inputs_are_found_in_nested_containers(value):
    lazy = transformed(value, lambda i: delayed(int)(i))
    eager = transformed(value, int)
    assert told(given_to_task(lazy)) == told(eager)
    assert told(compute(lazy, scheduler="sync")[0]) == told(eager)
    ((a,), k) = pair(lazy, k=lazy).compute(scheduler="sync")
    assert (told(a), told(k["k"])) == (told(eager), told(eager))


@given(nested)
def test_values_without_lazy_parts_arrive_as_they_were(value):
    eager = transformed(value, int)
    assert told(given_to_task(eager)) == told(eager)
    assert compute(eager)[0] is eager


# -- each kind ------------------------------------------------------------------------------


def test_dict_keys_and_values():
    assert given_to_task({one: two, "a": one, 3: 4}) == {1: 2, "a": 1, 3: 4}


def test_slices():
    assert given_to_task(slice(one, None, two)) == slice(1, None, 2)
    assert given_to_task((slice(one), slice(two))) == (slice(1), slice(2))


def test_namedtuples():
    plain = collections.namedtuple("plain", "a b")

    class Strange(plain):
        def __new__(cls, only):
            return super().__new__(cls, only, only)

    assert given_to_task(plain(one, 5)) == plain(1, 5)
    assert type(given_to_task(plain(one, 5))) is plain
    assert given_to_task(Point(one)) == Point(1, 7)
    got = given_to_task(Strange(one))
    assert (type(got), *got) == (Strange, 1, 1)


def test_dataclasses():
    @dataclasses.dataclass
    class Base:
        a: object
        shared: typing.ClassVar[list] = []
        start: dataclasses.InitVar[int] = 0
        made: object = dataclasses.field(init=False)

        def __post_init__(self, start):
            self.made = [two, start]

    class Child(Base):
        pass

    value = Child(one)
    value.note = "kept"
    got = given_to_task(value)
    assert type(got) is Child
    assert (got.a, got.made, got.note) == (1, [2, 0], "kept")
    assert vars(got).keys() == {"a", "made", "note"}
    assert value.a is one  # the user's own is not touched


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("slots", [False, True])
def test_frozen_and_slotted_dataclasses(frozen, slots):
    @dataclasses.dataclass(frozen=frozen, slots=slots)
    class D:
        a: object
        b: object = dataclasses.field(init=False, default=5)
        c: typing.ClassVar[int] = 3

    assert given_to_task(D(one)) == D(1)
    assert given_to_task([D(one), D(D(two))]) == [D(1), D(D(2))]


def test_a_dataclass_with_a_missing_field():
    @dataclasses.dataclass
    class D:
        a: object
        b: object = dataclasses.field(init=False)

    got = given_to_task(D(one))
    assert got.a == 1
    assert not hasattr(got, "b")


def test_a_dataclass_changed_after_the_call():
    box = Box(one, [])
    box.note = "before"
    x = same(box)
    box.inside, box.note = None, "after"
    got = x.compute()
    assert (got.inside, got.note) == (1, "before")


def test_subclasses_of_dict():
    ordered = OrderedDict([("b", one), ("a", two)])
    got = given_to_task(ordered)
    assert (type(got), list(got.items())) == (OrderedDict, [("b", 1), ("a", 2)])

    factory = defaultdict(list, a=one)
    got = given_to_task(factory)
    assert got == {"a": 1}
    assert got["new"] == []
    assert "new" not in factory

    counter = collections.Counter(a=3)
    counter["b"] = two
    got = given_to_task(counter)
    assert (type(got), got) == (collections.Counter, {"a": 3, "b": 2})

    class Named(dict):
        def __init__(self, name, *args):
            super().__init__(*args)
            self.name = name

    got = given_to_task(Named("n", {"a": one}))
    assert (type(got), got, got.name) == (Named, {"a": 1}, "n")
    got = given_to_task(Named("n", {"a": 1}))
    assert (type(got), got, got.name) == (Named, {"a": 1}, "n")


def test_subclasses_of_list_and_set_and_deque():
    class Named(list):
        def __init__(self, name, *args):
            super().__init__(*args)
            self.name = name

    got = given_to_task(Named("n", [one, 5]))
    assert (type(got), got, got.name) == (Named, [1, 5], "n")

    class NamedSet(set):
        name = "n"

    source = NamedSet([one, 5])
    source.name = "m"
    got = given_to_task(source)
    assert (type(got), got, got.name) == (NamedSet, {1, 5}, "m")

    class Fixed(frozenset):
        pass

    got = given_to_task(Fixed([one, 5]))
    assert (type(got), got) == (Fixed, {1, 5})

    got = given_to_task(deque([one, 5], maxlen=2))
    assert (got, got.maxlen) == (deque([1, 5]), 2)


def test_object_arrays():
    a = np.empty((2, 2), object)
    a[:] = 3
    a[0, 1] = one
    a[1, 0] = [two]
    got = given_to_task(a)
    assert got.shape == (2, 2)
    assert got.tolist() == [[3, 1], [[2], 3]]
    assert a[0, 1] is one
    zero = np.array(None, object)
    zero[()] = one
    assert given_to_task(zero)[()] == 1
    assert given_to_task(a.T).tolist() == [[3, [2]], [1, 3]]


def test_object_arrays_can_be_made_of_lazy_values():
    a = np.array([[one, 5], [None, two]], dtype=object)
    assert a[0, 0] is one
    assert given_to_task(a).tolist() == [[1, 5], [None, 2]]
    assert np.asarray(one, dtype=object)[()] is one
    assert compute(a)[0].tolist() == [[1, 5], [None, 2]]


@pytest.mark.parametrize("result", [(1, 2), [1, 2], np.ones(2), np.array(5), "text", {"a": 1}])
def test_object_arrays_of_results_that_are_sequences(result):
    a = np.empty(2, object)
    a[0] = delayed(lambda: result)()
    a[1] = delayed(lambda: result)()
    got = given_to_task(a)
    assert got.shape == (2,)
    for item in got:
        assert type(item) is type(result)
        np.testing.assert_array_equal(item, result)
    assert "object" in repr(same(a))


def test_object_arrays_without_lazy_parts():
    a = np.array([[1], "b", None], object)
    got = given_to_task(a)
    assert got.tolist() == [[1], "b", None]
    assert not got.flags.writeable
    assert a.flags.writeable


def test_structured_arrays_with_objects():
    a = np.zeros(2, dtype=[("n", int), ("o", object)])
    a[0] = (1, one)
    assert given_to_task(a).tolist() == [(1, 1), (0, 0)]


@pytest.mark.parametrize(
    "make",
    [
        lambda xs: (x for x in xs),
        iter,
        lambda xs: iter(tuple(xs)),
        lambda xs: map(copy.copy, xs),
        lambda xs: filter(is_something, xs),
        lambda xs: reversed(list(reversed(xs))),
        lambda xs: iter(dict.fromkeys(xs)),
        lambda xs: iter(dict(enumerate(xs)).values()),
        lambda xs: dict(enumerate(xs)).values(),
        lambda xs: OrderedDict(enumerate(xs)).values(),
        lambda xs: dict.fromkeys(xs).keys(),
        lambda xs: OrderedDict.fromkeys(xs).keys(),
    ],
)
def test_iterators_and_views_are_taken_once_at_the_call(make):
    x = delayed(list)(make([one, 5, two]))
    y = delayed(lambda *its: [list(it) for it in its])(make([7, 8]))
    for _ in range(2):
        assert x.compute() == [1, 5, 2]
        assert y.compute() == [[7, 8]]


def test_more_iterators_and_views():
    assert delayed(list)(zip([one, 3], [4, two], strict=True)).compute() == [(1, 4), (3, 2)]
    assert delayed(list)(enumerate([one, 3])).compute() == [(0, 1), (1, 3)]
    assert delayed(dict)({"a": one}.items()).compute() == {"a": 1}
    assert delayed(dict)(OrderedDict(a=one).items()).compute() == {"a": 1}
    assert delayed(list)(OrderedDict(a=one, b=1).values()).compute() == [1, 1]
    assert delayed(list)({"a": one, "b": 1}.values()).compute() == [1, 1]
    assert delayed(sorted)(iter({one, 5})).compute() == [1, 5]
    assert delayed(sorted)({one: 1, 5: 2}.keys()).compute() == [1, 5]
    assert delayed(list)([iter([one]), 3]).compute()[1] == 3
    assert delayed(next)(iter([one, two])).compute() == 1


def is_something(x):
    return x is not None


def test_a_generator_is_taken_at_the_call_not_later():
    taken = []

    def produce():
        for i in range(3):
            taken.append(i)
            yield i

    x = delayed(sum)(produce())
    assert taken == [0, 1, 2]
    assert x.compute() == x.compute() == 3
    assert taken == [0, 1, 2]


def test_containers_that_die_during_the_search_are_not_confused():
    def produce(start):
        return ([delayed(i)] for i in range(start, start + 50))

    ((a, b), _) = pair(produce(0), produce(100)).compute()
    assert list(a) == [[i] for i in range(50)]
    assert list(b) == [[i] for i in range(100, 150)]


def test_a_view_does_not_follow_later_changes():
    d = {"a": 1}
    x = delayed(list)(d.keys())
    d["b"] = 2
    assert x.compute() == ["a"]


@pytest.mark.parametrize("edit", [
    lambda items: items.__setitem__(7, -1),
    lambda items: items.append(0) if isinstance(items, list) else items.update({-1: 0}),
    lambda items: items.pop(3),
    lambda items: items.__setitem__(1, True),  # equal to what was there, and not the same
])
@pytest.mark.parametrize("make", [list, dict.fromkeys], ids=["list", "dict"])
def test_calls_that_share_a_long_container_do_not_share_its_edits(make, edit):
    items = make(range(20_000))
    seen = delayed(lambda x: [*x] if isinstance(x, list) else [*x.items()])
    first, again = seen(items), seen(items)
    before = [*items] if isinstance(items, list) else [*items.items()]
    edit(items)
    later = seen(items)
    after = [*items] if isinstance(items, list) else [*items.items()]
    for got, wanted in zip(compute(first, again, later), (before, before, after), strict=True):
        assert got == wanted and list(map(repr, got)) == list(map(repr, wanted))
