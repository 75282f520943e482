"""Older pickles look here for what `lazyflow.api.lazy` has now."""

from lazyflow.api.lazy import Delayed as Delayed
from lazyflow.api.lazy import _Attribute as _Attribute
from lazyflow.api.lazy import _call as _call
from lazyflow.api.lazy import _Method as _Method
