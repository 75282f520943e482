"""Older pickles look here for what `lazyflow.api.decorator` has now."""

from lazyflow.api.decorator import _function_again as _function_again
from lazyflow.api.decorator import _make_function as _make_function
from lazyflow.api.decorator import gathered as gathered
