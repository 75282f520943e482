"""Marks of tests whose oracle did otherwise in the oldest version that setup.cfg allows."""

import numpy as np
import pytest
import sklearn
from numpy.lib import NumpyVersion


def numpy_24(reason):
    """Return the mark of a test whose oracle is NumPy 2.4 or newer."""
    older = NumpyVersion(np.__version__) < "2.4.0"
    return pytest.mark.skipif(older, reason=f"NumPy 2.3 {reason}")


def sklearn_19(reason):
    """Return the mark of a test whose oracle is scikit-learn 1.9 or newer."""
    older = NumpyVersion(sklearn.__version__) < "1.9.0"
    return pytest.mark.skipif(older, reason=f"scikit-learn 1.8 {reason}")
