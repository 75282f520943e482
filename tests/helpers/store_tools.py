"""Both ends of shared memory, and values to pass between them."""

import collections
import dataclasses
import mmap
import threading

import numpy as np

from lazyflow.store.memory.shared import Arenas, Mappings
from lazyflow.store.pickling.serialize import Encoded, decode, encode

PAGE = mmap.PAGESIZE
MB = 1 << 20
LEAST = 65_536
LOCK = threading.Lock()


@dataclasses.dataclass
class Point:
    x: int
    y: object


Pair = collections.namedtuple("Pair", "a b")


class Store:
    """Both ends of shared memory."""

    def __init__(self, private=True):
        self.arenas = Arenas(0, 1, available=lambda: None)
        self.mappings = Mappings(private)

    def encode(self, value, least=LEAST):
        return encode(value, self.arenas.write, least)

    def decode(self, encoded):
        for arena, fd in self.arenas.take_new():
            self.mappings.add(arena, fd)
        return decode(Encoded(encoded.payload, encoded.buffers, encoded.size), self.mappings.view)

    def there_and_back(self, value, least=LEAST):
        return self.decode(self.encode(value, least))


def mapped(arenas, private=False):
    mappings = Mappings(private)
    for arena, fd in arenas.take_new():
        mappings.add(arena, fd)
    return mappings


def same(a, b):
    """Whether two values are equal, types, signs of zero, NaN and layouts of memory included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    return repr(a) == repr(b)


def raises(error):
    raise error
