"""`tokenize`: equal for equal content in any process, different for different content."""

import collections
import string

import pytest
from token_examples import Plain, in_another_process, token_table

from lazyflow.graph.tokens.tokenize import tokenize, unique_token

TABLE_OF_ANOTHER_PROCESS = """
import json, sys
sys.path[:0] = {paths!r}
import token_examples
print(json.dumps(token_examples.token_table()))
"""


def test_a_token_is_32_hexadecimal_digits():
    token = tokenize(1, "a", key=[2])
    assert len(token) == 32
    assert set(token) <= set(string.hexdigits.lower())


def test_different_content_has_different_tokens():
    names = collections.defaultdict(list)
    for name, token in token_table().items():
        names[token].append(name)
    assert [same for same in names.values() if len(same) > 1] == []


def test_equal_content_made_twice_has_one_token():
    assert token_table() == token_table()


@pytest.mark.parametrize("seed", ["1", "2"])
def test_tokens_are_equal_in_a_process_with_another_hash_seed(seed):
    assert in_another_process(TABLE_OF_ANOTHER_PROCESS, seed) == token_table()


MAIN = """
import json, sys
sys.path[:0] = {paths!r}
{padding}
import dataclasses, enum, typing
from lazyflow.graph.tokens.tokenize import tokenize
names = set("abcdefgh")
T = typing.TypeVar("T")
class Shade(enum.Enum):
    DARK = 1
class Base(typing.Generic[T]):
    registry = {{frozenset("xyz"): Shade.DARK}}
@dataclasses.dataclass
class Leaf(Base[int]):
    n: int = 0
    def up(self): return odd(self.n) in names and Leaf
    def here(self): return super().__init__, __class__
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n != 0 and even(n - 1)
values = [even, odd, Leaf, Leaf(2), Shade.DARK, Leaf(1).up, lambda: (names, Shade, helper)]
print(json.dumps([tokenize(value, strict=True) for value in values]))
def helper(): pass
"""


def test_the_content_of_main_is_the_same_in_another_process():
    one = in_another_process(MAIN.replace("{padding}", ""), "1")
    other = in_another_process(MAIN.replace("{padding}", "import math\n\n"), "2")
    assert one == other
    assert len(set(one)) == len(one)


def test_the_globals_of_main_count_where_they_are_read():
    changed = MAIN.replace("{padding}", "").replace("abcdefgh", "abc")
    one, other = in_another_process(MAIN.replace("{padding}", "")), in_another_process(changed)
    assert [a == b for a, b in zip(one, other, strict=True)] == [
        *[True, True],  # even, odd
        *[False, False],  # Leaf, Leaf(2)
        True,  # Shade.DARK
        *[False, False],  # Leaf(1).up, the lambda
    ]


def test_importing_loads_no_library():
    code = """
    import json, sys
    sys.path[:0] = {paths!r}
    from lazyflow.graph.tokens.tokenize import tokenize
    tokenize([1, {{"a": print}}], lambda: 0)
    print(json.dumps([m for m in ("numpy", "scipy", "pandas", "numba") if m in sys.modules]))
    """
    assert in_another_process(code) == []


def test_positional_and_keyword_arguments_count_by_place_and_name():
    calls = [
        tokenize(),
        tokenize(1),
        tokenize([1]),
        tokenize(1, 2),
        tokenize((1, 2)),
        tokenize(a=1),
        tokenize(b=1),
        tokenize("a", 1),
        tokenize({"a": 1}),
        tokenize(1, a=2),
        tokenize(a=1, b=2),
        tokenize(a=[1], b=2),
    ]
    assert len(set(calls)) == len(calls)
    assert tokenize(1, a=2, b=3) == tokenize(1, b=3, a=2)


def test_strict_changes_no_token():
    assert tokenize([1, Plain(a=2)], strict=True) == tokenize([1, Plain(a=2)])


def test_unique_tokens_differ():
    tokens = [unique_token() for _ in range(100)]
    assert len(set(tokens)) == 100
    assert {len(token) for token in tokens} == {32}


def test_unique_tokens_differ_after_a_fork():
    code = """
    import json, os, sys
    sys.path[:0] = {paths!r}
    from lazyflow.graph.tokens.tokenize import tokenize, unique_token
    read, write = os.pipe()
    child = os.fork()
    tokens = [unique_token(), tokenize(object())]
    if not child:
        os.write(write, json.dumps(tokens).encode())
        os._exit(0)
    print(json.dumps(tokens + json.loads(os.read(read, 1000))))
    """
    assert len(set(in_another_process(code))) == 4
