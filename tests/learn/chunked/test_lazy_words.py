"""Lazy values other than chunked arrays: errors say how to convert them."""

import numpy as np
import pytest

import lazyflow.array as la
from lazyflow import delayed
from lazyflow.learn import (
    StandardScaler,
    accuracy_score,
    log_loss,
    mean_squared_error,
    r2_score,
    train_test_split,
)

ROWS = np.arange(8.0).reshape(4, 2)
LABELS = np.array([0, 1, 1, 0])


@pytest.mark.parametrize("lazy", [delayed(ROWS), [delayed(ROWS)], (delayed(ROWS),)])
@pytest.mark.parametrize("call", [
    lambda x: StandardScaler().fit(x), lambda x: StandardScaler().partial_fit(x),
    lambda x: StandardScaler().fit(ROWS).transform(x),
    lambda x: StandardScaler().fit(ROWS).inverse_transform(x),
    lambda x: train_test_split(x), lambda x: train_test_split(ROWS, stratify=x),
    lambda x: accuracy_score(x, LABELS), lambda x: accuracy_score(la.asarray(LABELS), x),
    lambda x: mean_squared_error(LABELS, x), lambda x: r2_score(x, LABELS),
    lambda x: log_loss(LABELS, LABELS, sample_weight=x),
])
def test_they_are_refused(call, lazy):
    with pytest.raises(TypeError, match=r"a chunked array .*from_delayed\(value, shape, dtype\)"):
        call(lazy)
