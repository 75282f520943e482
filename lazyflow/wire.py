"""Older pickles look here for what `lazyflow.api.graph_pickle` has now."""

from lazyflow.api.graph_pickle import unpacked as unpacked
