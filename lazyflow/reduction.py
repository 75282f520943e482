"""Older pickles look here for what `lazyflow.api.reduction` has now."""

from lazyflow.api.reduction import _fold as _fold
