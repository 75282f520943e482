"""How sequences, mappings and sets of any objects become a `MerkleNode` or a digest.

Atoms are encoded in runs by `marshal`, about 20 ns each, and only the other objects become
children. It is version 2 of the format, the last whose bytes depend neither on reference counts
nor on interned strings. What is encoded in which way depends on content alone, never on identity.
"""

from __future__ import annotations

import marshal
from collections.abc import Collection, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from lazyflow.graph.tokens.digests import Digest, MerkleNode, hashed

ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None), type(...)})
_SORTABLE = frozenset({int, str, bytes})
_TEXT = frozenset({str, bytes})
_COPY_LIMIT = 1 << 26  # characters in one marshal string; text beyond is hashed one by one
_SHORT = 8  # mean length up to which rows are encoded with the list that holds them


def encoded(value: Any) -> bytes:
    """Return the `marshal` bytes of atoms, or of tuples and lists of them."""
    return marshal.dumps(value, 2)


def nested(found: bytes | MerkleNode) -> Digest | MerkleNode:
    """Return contents as a child of another node: plain bytes would be taken for a value."""
    return found if isinstance(found, MerkleNode) else Digest(found)


def sequence(
    head: bytes,
    values: Sequence[Any],
    labels: Sequence[Any] | None = None,
    style: str = "[{!r}]",
) -> bytes | MerkleNode:
    """Return the contents of a list or tuple; ``labels`` name the values instead of indices."""
    kinds = set(map(type, values))
    if kinds <= ATOMS:
        if _fits(kinds, values):
            return hashed(head, b"\0", encoded(values))
        where, atoms = list(range(len(values))), []
    elif _has_flat_rows(kinds, values):
        return hashed(head, b"\0", encoded(values))
    else:
        where = [i for i, value in enumerate(values) if type(value) not in ATOMS]
        atoms = [value for value in values if type(value) in ATOMS]
        if not _fits(kinds, atoms):
            where, atoms = list(range(len(values))), []
    names = where if labels is None else [labels[i] for i in where]
    head += b"\1" + encoded((where, atoms))
    return MerkleNode(head, [values[i] for i in where], names, style)


def _fits(kinds: set[type], atoms: Sequence[Any]) -> bool:
    """Tell whether the text among the atoms is small enough to be copied."""
    text = kinds & _TEXT
    if not text:
        return True
    if text == kinds:
        return sum(map(len, atoms)) <= _COPY_LIMIT
    return sum(len(atom) for atom in atoms if type(atom) in _TEXT) <= _COPY_LIMIT


def _has_flat_rows(kinds: set[type], values: Sequence[Any]) -> bool:
    """Tell whether the values are all short lists, or all short tuples, of atoms.

    They have to be short, since a row that is there several times is encoded each time.
    """
    if len(kinds) != 1 or (list not in kinds and tuple not in kinds):
        return False
    if sum(map(len, values)) > _SHORT * len(values):
        return False
    inner = set(map(type, chain.from_iterable(values)))
    return inner <= ATOMS and _fits(inner, list(chain.from_iterable(values)))


def mapping(
    head: bytes, keys: Sequence[Any], values: Sequence[Any], style: str = "[{!r}]"
) -> bytes | MerkleNode:
    """Return the contents of pairs whose order does not matter."""
    kinds = set(map(type, keys))
    if len(kinds) == 1 and kinds <= _SORTABLE:
        pairs = sorted(zip(keys, values, strict=True), key=itemgetter(0))
        keys = [key for key, _ in pairs]
        head += b"\0" + encoded(keys)
        return sequence(head, [value for _, value in pairs], keys, style)
    flat: list[bytes] = []
    children: list[Any] = []
    for key, value in zip(keys, values, strict=True):
        if type(value) in ATOMS and _is_flat(key) and _fits({type(value)}, (value,)):
            flat.append(encoded((key, value)))
        else:
            children.append(MerkleNode(b"pair\0", (key, value), (key, key), style))
    flat.sort()
    return MerkleNode(head + b"\1" + encoded(flat), children, ordered=False)


def _is_flat(key: Any) -> bool:
    return type(key) in ATOMS or (type(key) is tuple and ATOMS.issuperset(map(type, key)))


def unordered(head: bytes, values: Collection[Any]) -> bytes | MerkleNode:
    """Return the contents of a set, given in any order."""
    kinds = set(map(type, values))
    if len(kinds) == 1 and kinds <= _SORTABLE:
        return hashed(head, b"\0", encoded(sorted(values)))
    flat = sorted(encoded(value) for value in values if _is_flat(value))
    children = [value for value in values if not _is_flat(value)]
    return MerkleNode(head + b"\1" + encoded(flat), children, children, "[{!r}]", ordered=False)
