"""Where pickles of before look for what is in `lazyflow.api.graph_pickle` now."""

from lazyflow.api.graph_pickle import unpacked as unpacked
