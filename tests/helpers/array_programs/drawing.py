"""Drawing what stands at the places of a step's code."""

import re

import numpy as np

from array_programs import steps
from array_programs.values import COMMON, NUMBERS, OTHERS, random_chunks

_PLACE = re.compile(r"\{([^{}]+)\}")
_WORDS = {name: text.split() for name, text in steps.WORDS.items()}


class NothingFits(Exception):
    """No variable is what the code needs."""


class Draw:
    """Fills places in; `values` are NumPy's, by the name of the variable."""

    def __init__(self, rng, values):
        self.rng = rng
        self.values = values

    def fill(self, code):
        self.x = self.one_of(self.values)  # what axes and masks are of
        self.drawn = {}
        self.first = True
        if "{x" in code:
            wanted = re.search(r"\{x:?([^{}.]*)\}", code)[1]
            self.x = self.drawn[wanted] = self._x(wanted)
        return _PLACE.sub(lambda found: self._filled(found[1]), code)

    def one_of(self, several):
        several = list(several)
        if not several:
            raise NothingFits
        return several[self.rng.integers(len(several))]

    def _filled(self, place):
        name, _, wanted = place.partition(":")
        if name in _WORDS:
            return self.one_of(_WORDS[name])
        if name == "x.dtype":
            return repr(self.values[self.x].dtype.str)
        function = getattr(self, f"_{name}")
        return str(function(wanted) if name in ("x", "y", "same", "three") else function())

    # -- variables ------------------------------------------------------------------------------

    def _fits(self, wanted):
        kinds, _, ndims = wanted.partition("*")
        return [
            name for name, value in self.values.items()
            if (not kinds or value.dtype.kind in kinds) and (not ndims or str(value.ndim) in ndims)
        ]

    def _x(self, wanted):
        if wanted in self.drawn and (self.first or self.rng.random() < 0.8):
            self.first = False
            return self.drawn[wanted]
        fitting = self._fits(wanted)
        late = fitting[-2:] if self.rng.random() < 0.6 else fitting  # programs are to be deep
        return self.one_of(late)

    def _y(self, wanted):
        shape = self.values[self.x].shape
        fitting = [
            name for name in self._fits(wanted) if _broadcasts(self.values[name].shape, shape)
        ]
        if not fitting or self.rng.random() < 0.15:
            return self.one_of(_WORDS["k" if wanted else "s"])
        return self.one_of(fitting)

    def _same(self, wanted):
        shape = self.values[self.x].shape
        fitting = [name for name in self._fits(wanted) if self.values[name].shape == shape]
        if not fitting or self.rng.random() < 0.3:
            return f"ints({self._seed()}, {shape}, 0, 4)"
        return self.one_of(fitting)

    def _three(self, wanted):
        name = self._x(wanted)
        if self.values[name].shape[-1:] not in [(2,), (3,)]:
            raise NothingFits
        return name

    # -- places and masks -----------------------------------------------------------------------

    @property
    def _shape_now(self):
        return self.values[self.x].shape

    def _seed(self):
        return int(self.rng.integers(10_000))

    def _m(self):
        shape = self._shape_now
        fitting = [
            name for name, value in self.values.items()
            if value.dtype == bool and value.shape == shape
        ]
        if fitting and self.rng.random() < 0.4:
            return self.one_of(fitting)
        if self.values[self.x].dtype.kind in "biuf" and self.rng.random() < 0.4:
            return f"({self.x} > {self.one_of(['0', '1', '-1', '99'])})"
        return f"flags({self._seed()}, {shape})"

    def _length(self, axis):
        shape = self._shape_now
        return shape[axis] if axis < len(shape) else 0

    def _mask0(self):
        return f"flags({self._seed()}, ({self._length(0)},))"

    def _mask1(self):
        return f"flags({self._seed()}, ({self._length(1)},))"

    def _places_of(self, n):
        shape = self.one_of(["(2,)", "(3,)", "(2, 2)", "()", "(0,)", "(5,)"])
        return f"ints({self._seed()}, {shape}, {-n}, {n})"

    def _places0(self):
        return self._places_of(self._length(0))

    def _places1(self):
        return self._places_of(self._length(1))

    def _places(self):
        return self._places_of(max([*self._shape_now, 1]))

    def _place(self):
        return self.one_of(["0", "-1", "1", "slice(0, 2)", "slice(None, None, 2)", "[0, 1]"])

    def _slice(self, n):
        ends = [None, None, *range(-n - 1, n + 2)]
        start, stop = self.one_of(ends), self.one_of(ends)
        step = self.one_of([None, None, 1, 2, -1, -2, 3])
        text = ":".join("" if each is None else str(each) for each in (start, stop))
        return text if step is None else f"{text}:{step}"

    def _mask_slice(self):
        return self._slice(3)

    def _newkey(self):
        return self.one_of(["0", "-1", "None", "...", ":", "::-1", "1:"])

    def _key(self):
        entries = []
        for n in self._shape_now:
            kind = self.rng.random()
            if kind < 0.1:
                entries.append("None")
            if kind < 0.45:
                entries.append(self._slice(n))
            elif kind < 0.65:
                entries.append(str(self.rng.integers(-n, n) if n else 0))
            elif kind < 0.75:
                entries.append(self._places_of(n))
            elif kind < 0.83:
                entries.append(f"flags({self._seed()}, ({n},))")
            elif kind < 0.88:
                entries.append("...")
                break
            else:
                entries.append(":")
        if self.rng.random() < 0.2:
            entries = entries[:-1]
        if not entries or self.rng.random() < 0.03:
            entries.append("...")
        return ", ".join(entries)

    def _value(self):
        name = self._x("")
        return self.one_of([name, f"{name}[:1]", "[1, 2]", "np.array(2.5)", name])

    def _choices(self):
        return f"ints({self._seed()}, {self._shape_now}, 0, 2)"

    def _counts(self):
        return f"ints({self._seed()}, ({self._length(0)},), 0, 3)"

    # -- axes, types, shapes --------------------------------------------------------------------

    def _axis(self):
        ndim = len(self._shape_now)
        if not ndim or self.rng.random() < 0.03:
            return self.one_of([0, -1, ndim])
        return int(self.rng.integers(-ndim, ndim))

    def _axis1(self):
        return self.one_of([None, self._axis(), self._axis()])

    def _axes(self):
        ndim = len(self._shape_now)
        several = tuple(np.flatnonzero(self.rng.random(ndim) < 0.5).tolist())
        return self.one_of([None, None, self._axis(), self._axis(), several])

    def _dtype(self):
        dtype = np.dtype(self.one_of(self.one_of([COMMON, NUMBERS, OTHERS[:-1]])))
        if self.rng.random() < 0.2:
            dtype = dtype.newbyteorder(">")
        return repr(dtype.str)

    def _number(self):
        return repr(self.one_of(NUMBERS))

    def _shape(self):
        return self._shape_now

    def _reshaped(self):
        shape = self._shape_now
        size = int(np.prod(shape))
        pairs = [(n, size // n) for n in range(1, 10) if size % n == 0]
        return self.one_of([
            -1, (-1, 1), shape[::-1], (1, *shape), *pairs, *[(n, -1) for n, _ in pairs[:3]],
        ])

    def _mode(self):
        wraps = 0 not in self._shape_now  # NumPy 2.4 never ends where there is nothing to wrap to
        return self.one_of(["'raise'", "'clip'", *["'wrap'"] * wraps])

    def _chunks(self):
        return random_chunks(self.rng, self._shape_now)


def _broadcasts(shape, other):
    try:
        return np.broadcast_shapes(shape, other) == other or len(shape) <= 2
    except ValueError:
        return False
