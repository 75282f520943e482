"""The searches of lazyflow.tune against scikit-learn's own."""

import numpy as np
import pytest
from sklearn import model_selection
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from lazyflow.tune import GridSearchCV

X, y = load_iris(return_X_y=True)


def assert_same_results(one, other):
    def counted(results):
        return {name: value for name, value in results.items() if not name.endswith("_time")}

    np.testing.assert_equal(counted(one.cv_results_), counted(other.cv_results_))
    for name in ("best_params_", "best_score_", "best_index_", "n_splits_"):
        assert getattr(one, name, None) == getattr(other, name, None), name


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
@pytest.mark.parametrize(("estimator", "grid"), [
    (SVC(), {"C": [0.001, 1.0]}),
    (make_pipeline(make_pipeline(MinMaxScaler(), PCA()), StandardScaler(), SVC()),
     {"pipeline__pca__n_components": [1, 2], "svc__C": [0.01, 1.0]}),
])
def test_the_results_are_those_of_scikit_learn(scheduler, estimator, grid):
    ours = GridSearchCV(estimator, grid, scheduler=scheduler, num_workers=2).fit(X, y)
    assert_same_results(ours, model_selection.GridSearchCV(estimator, grid).fit(X, y))
