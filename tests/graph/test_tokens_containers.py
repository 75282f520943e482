"""Tokens of containers and of views of memory; random ones against an oracle."""

import copy
import math
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_examples import Plain, Table

from lazyflow.graph.tokens.tokenize import tokenize

atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.0, 1j, math.nan]),
    st.sampled_from(["", "a", "1"]),
    st.sampled_from([b"", b"a", b"1"]),
)
keys = st.one_of(
    st.sampled_from(["a", "b", "c", 1, 2, True, None, b"a", 1.5]), st.tuples(st.integers(0, 2))
)
data = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
        st.sets(keys, max_size=3),
        st.builds(Plain, a=inner, b=inner),
    ),
    max_leaves=6,
)


def spelled(value):
    """Content as text, the slow and obvious way."""
    kind = type(value).__name__
    if isinstance(value, list | tuple):
        return f"{kind}({', '.join(map(spelled, value))})"
    if isinstance(value, dict):
        pairs = sorted(f"{spelled(k)}: {spelled(v)}" for k, v in value.items())
        return f"{kind}({', '.join(pairs)})"
    if isinstance(value, set):
        return f"{kind}({', '.join(sorted(map(spelled, value)))})"
    return f"{kind}({spelled(vars(value)) if isinstance(value, Plain) else repr(value)})"


@given(data, data)
def test_tokens_are_equal_exactly_when_contents_are(one, other):
    assert (tokenize(one) == tokenize(other)) == (spelled(one) == spelled(other))


@given(data)
def test_a_deep_copy_has_the_token_of_the_original(value):
    assert tokenize(copy.deepcopy(value)) == tokenize(value)


@given(st.dictionaries(keys, data, max_size=5), st.randoms())
def test_the_order_of_a_dict_does_not_count(value, rng):
    pairs = list(value.items())
    rng.shuffle(pairs)
    assert tokenize(dict(pairs)) == tokenize(value)
    assert tokenize(Table(pairs)) == tokenize(Table(value))


@pytest.mark.parametrize("values", [[1, 2], [[1], 2], [[1], [2]]])
@pytest.mark.parametrize("names", ["ab", (1, 2), (b"a", b"b"), (1, "a"), ((1,), (2,)), (1.5, ())])
def test_the_order_of_two_keys_does_not_count(names, values):
    pairs = list(zip(names, values, strict=True))
    assert tokenize(dict(pairs)) == tokenize(dict(pairs[::-1]))
    assert tokenize(dict(pairs)) != tokenize(dict(zip(names, values[::-1], strict=True)))


def test_the_order_of_attributes_does_not_count():
    assert tokenize(Plain(a=1, b=[2])) == tokenize(Plain(b=[2], a=1))


def test_two_nan_keys_keep_their_values_apart():
    one, other = float("nan"), float("nan")
    assert tokenize({one: 1, other: 2}) == tokenize({other: 2, one: 1})
    assert tokenize({one: 1, other: 2}) != tokenize({one: 1, other: 1})


@pytest.mark.parametrize("kind", [str, bytes, int])
def test_a_million_atoms_count_one_by_one(kind):
    values = [str(i).encode() if kind is bytes else kind(i) for i in range(10**6)]
    token = tokenize(values)
    assert tokenize(values.copy()) == token
    values[777_777] = None
    assert tokenize(values) != token


def test_large_text_in_a_list_is_not_copied_and_counts():
    part = b"x" * (1 << 25)
    tracemalloc.start()
    token = tokenize([part] * 3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < len(part)
    assert token == tokenize([bytes(bytearray(part))] * 3)
    assert tokenize([part] * 3) != tokenize([part, part, part[:-1]])
    assert tokenize([part, part, part, []]) == tokenize([part, part, part, []])
    whole = part * 3
    assert tokenize({1: whole, "a": 2}) == tokenize({"a": 2, 1: whole})


def test_a_view_counts_by_its_bytes_format_and_shape():
    view = memoryview(b"ace")
    for same in (memoryview(b"abcdef")[::2], memoryview(bytearray(b"ace"))):
        assert tokenize(same) == tokenize(view)
    grid = memoryview(b"abcdef").cast("B", [2, 3])
    views = [view, view.cast("b"), grid, memoryview(b"abcdef"), memoryview(b"")]
    assert len({tokenize(each) for each in views}) == len(views)
