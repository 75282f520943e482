"""Where pickles of before look for what is in `lazyflow.api.decorator` now."""

from lazyflow.api.decorator import _function_again as _function_again
