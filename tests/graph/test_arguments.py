"""Lazy values are found wherever they stand in the arguments; everything else arrives as it was."""

import collections
import copy
import dataclasses
import enum
import math
import types
import typing
from collections import OrderedDict, defaultdict, deque

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazyflow import compute, delayed

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


# -- a property: eager and lazy agree on nested containers ----------------------------------


class Point(typing.NamedTuple):
    x: object
    y: object = 7


@dataclasses.dataclass
class Box:
    inside: object
    other: object = 3


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


# -- identity, depth, cycles ----------------------------------------------------------------


def test_a_container_used_twice_arrives_once():
    for inner in ([one], [5]):
        ((a, b), k) = pair(inner, inner, k=[inner, inner]).compute()
        assert a is b
        assert k["k"][0] is k["k"][1]
    assert (a, k["k"]) == ([5], [[5], [5]])
    it = iter([1, 2])
    ((a, b), _) = pair(it, it).compute()
    assert a is b


def test_one_input_used_twice_is_one_object():
    x = delayed(object)()
    ((a, b), k) = pair(x, [x], k={"x": x}).compute()
    assert a is b[0] is k["k"]["x"]


def test_nesting_to_any_depth():
    wraps = [lambda x: [x], lambda x: (x, 1), lambda x: {"k": x}, Box, lambda x: deque([x])]
    deep = one
    for i in range(100_000):
        deep = wraps[i % 5](deep)
    for got in (given_to_task(deep), compute(deep, scheduler="sync")[0]):
        for i in reversed(range(100_000)):
            got = got.inside if i % 5 == 3 else got["k"] if i % 5 == 2 else got[0]
        assert got == 1


def test_deep_nesting_without_lazy_parts():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert given_to_task(deep)[0] is deep[0]
    assert compute(deep)[0] is deep


def test_a_list_that_holds_itself_passes_intact():
    xs = [1]
    xs.append(xs)
    got = given_to_task(xs)
    assert got is xs
    assert got[1] is got
    assert compute(xs)[0] is xs


def test_cycles_through_other_containers():
    d = {"a": 1}
    box = Box([d, np.ones(2)])
    d["box"] = box
    got = given_to_task(d)
    assert got is d
    assert got["box"].inside[0] is got
    xs = [5]
    xs.append((xs,))
    ((a, b), k), returned = given_to_call(xs, [xs, 1], k=one)
    assert a is xs
    assert b[0] is xs
    assert k == {"k": 1}
    (a, b), k = returned  # the caller's own: xs is held by the call
    assert a is not xs
    assert a[1][0] is a is b[0]
    assert (a[0], b[1], k) == (5, 1, {"k": 1})


def test_a_cycle_for_a_mutating_function_is_copied_with_its_cycle():
    xs = [5]
    xs.append(xs)
    edit = delayed(lambda a: a.append(6) or a, mutates=True)
    for _ in range(2):
        got = edit(xs).compute()
        assert got is not xs
        assert got[1] is got
        assert got[2:] == [6]
    assert len(xs) == 2


def test_lazy_values_beside_a_cycle_are_found():
    xs = []
    xs.append(xs)
    ((a, b, c), _), ((own, *_), _) = given_to_call(xs, one, [two, xs])
    assert a is xs
    assert b == 1
    assert c[0] == 2
    assert c[1] is xs
    assert own is not xs
    assert own[0] is own
    assert compute(xs, one) == (xs, 1)


@pytest.mark.parametrize("inside", [one, [one], iter([1]), {"k": (one,)}])
def test_lazy_values_inside_a_cycle_are_refused(inside):
    xs = [inside]
    xs.append(xs)
    with pytest.raises(TypeError, match=r"holds itself and also lazy values.*arguments of their"):
        same(xs)


def test_many_back_references_are_no_problem():
    root = []
    deep = root
    for _ in range(20_000):
        deep.append([root])
        deep = deep[-1]
    assert given_to_task(root) is root


# -- the graph keeps its arguments ----------------------------------------------------------


@pytest.mark.parametrize(
    "container", [[1, 2], {1: 2}, {1, 2}, deque([1, 2]), OrderedDict(a=1), defaultdict(list, a=1)]
)
def test_a_container_changed_after_the_call_does_not_change_the_graph(container):
    before = copy.copy(container)
    x, y = same(container), same([container, one])
    container.clear()
    assert x.compute() == before
    assert y.compute()[1] == 1


def test_a_task_that_edits_its_own_list_changes_nothing_for_the_next():
    for argument in ([1, 2], [one, 2]):
        x = delayed(lambda xs: xs.append(9) or xs)(argument)
        assert x.compute() == [1, 2, 9]
        assert x.compute() == [1, 2, 9]
    assert argument == [one, 2]
    xs = delayed(lambda: [1, 2])()
    edit = delayed(lambda xs: xs.append(9) or xs)
    assert compute(edit(xs), edit(xs), xs) == ([1, 2, 9], [1, 2, 9], [1, 2])


def test_arrays_arrive_read_only():
    a = np.ones(2)
    for argument in (a, [a], {"k": a}, (a, one), Box(a), delayed(a), delayed(np.ones)(2)):
        with pytest.raises(ValueError, match="read-only"):
            delayed(_edit_array)(argument).compute()
    np.testing.assert_array_equal(a, 1)
    assert a.flags.writeable


def _edit_array(x):
    while not isinstance(x, np.ndarray):
        x = x.inside if isinstance(x, Box) else x["k"] if isinstance(x, dict) else x[0]
    x[0] = 5
    return x


def test_mutates_gives_private_writable_values():
    a = np.ones(2)
    edit = delayed(_edit_array, mutates=True)
    for argument in (a, [a], {"k": a}, delayed(a), delayed(np.ones)(2)):
        for _ in range(2):
            assert edit(argument).compute()[0] == 5
    np.testing.assert_array_equal(a, 1)


def test_pandas_objects_are_private():
    df = pd.DataFrame({"a": [1, 2]})

    @delayed
    def edit(x):
        x["b"] = 5
        return x

    for argument in (df, delayed(df)):
        assert list(edit(argument).compute().columns) == ["a", "b"]
    assert list(df.columns) == ["a"]
    x = delayed(df)
    df["c"] = 1
    assert list(x.compute().columns) == ["a"]


# -- hostile arguments ----------------------------------------------------------------------


def _refuse(self, *args):
    raise RuntimeError("hostile")


HOSTILE = {
    name: type("Hostile", (), {name: _refuse})
    for name in (
        "__eq__", "__hash__", "__bool__", "__len__", "__repr__", "__str__", "__getattr__",
        "__iter__", "__getitem__", "__contains__", "__copy__", "__deepcopy__", "__reduce_ex__",
        "__array__", "__index__", "__format__", "__sizeof__", "__dir__", "__call__",
    )
}  # fmt: skip
HOSTILE["__class__"] = type("Hostile", (), {"__class__": property(_refuse)})
HOSTILE["shape"] = type("Hostile", (), {"shape": property(_refuse), "dtype": property(_refuse)})


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_hostile_objects_arrive_unchanged(name, scheduler):
    thing = HOSTILE[name]()
    got = []
    take = delayed(lambda *a, **k: got.append((a, k)))
    x = take(thing, [thing], one, k=(thing, one))
    repr(x)
    x.compute(scheduler=scheduler)
    take(thing).compute(scheduler=scheduler)
    (((a, (b,), _), k), ((c,), _)) = got
    assert all(v is thing for v in (a, b, c, k["k"][0]))
    if name != "__call__":
        assert delayed([thing]).compute(scheduler=scheduler)[0] is thing
    assert compute([thing, one], scheduler=scheduler)[0][0] is thing
    cells = np.empty(2, object)
    cells[0], cells[1] = thing, one
    assert given_to_task(cells)[0] is thing


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_results_and_errors(name):
    thing = HOSTILE[name]()
    assert delayed(lambda: thing)().compute() is thing
    with pytest.raises(ZeroDivisionError):
        delayed(lambda *a: 1 / 0)(thing, [thing, one]).compute()


def test_odd_values_arrive_unchanged():
    nan = math.nan
    got = given_to_task({nan: nan, "one": one})
    assert next(iter(got)) is nan
    big = 10**5000
    assert given_to_task(big) is big
    assert given_to_task([big, one])[0] is big
    assert repr(same(big)) == "<Delayed <lambda>(int of 16610 bits)>"
    surrogate = "\udc80"
    assert given_to_task([surrogate, one])[0] == surrogate
    assert given_to_task({surrogate: one}) == {surrogate: 1}
    key = one.key
    assert given_to_task(key) == key  # text that is a key stays text
    assert given_to_task([key, one]) == [key, 1]
    assert given_to_task({key: (key, key)}) == {key: (key, key)}
    for value in (..., NotImplemented, type, same, enum.Enum, lambda: 1, types):
        expected = value.compute() if value is same else value
        assert given_to_task(value) is expected


def test_classes_of_the_library_as_arguments():
    assert given_to_task(type(one)) is type(one)
    assert given_to_task([type(one), one]) == [type(one), 1]


def test_unhashable_results_in_a_set_fail_in_the_task():
    x = same({delayed(list)("a"), 1})
    with pytest.raises(TypeError, match="unhashable") as caught:
        x.compute()
    assert "in lazyflow task" in caught.value.__notes__[0]


def test_containers_that_refuse_what_is_lazy():
    class Whole(list):
        def extend(self, items):
            items = list(items)
            if not all(isinstance(x, int) for x in items):
                raise ValueError("whole numbers only")
            super().extend(items)

    value = Whole()
    list.append(value, one)
    x = same(value)
    assert repr(x) == "<Delayed <lambda>(...)>"
    assert x.compute() == [1]


class FrozenDict(dict):
    def __setitem__(self, key, value):
        raise TypeError("immutable")


def test_containers_that_cannot_be_copied_arrive_as_they_are():
    value = FrozenDict(a=1)
    assert given_to_task(value) is value
    assert given_to_task([value, one])[0] is value
    with pytest.raises(TypeError, match="immutable"):  # nor can they be rebuilt
        same(FrozenDict(a=one))


def test_many_arguments_and_keywords():
    args, names = [delayed(i) for i in range(300)], [f"k{i}" for i in range(300)]
    got_args, got_kwargs = pair(*args, **dict(zip(names, args, strict=True))).compute()
    assert got_args == tuple(range(300))
    assert got_kwargs == dict(zip(names, range(300), strict=True))
