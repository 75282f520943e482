"""Runs what scikit-learn computes by the Array API on chunked arrays; prints what agrees.

    SCIPY_ARRAY_API=1 PYTHONPATH=tests/helpers python -m sklearn_by_lazyflow

An estimator, preprocessor or metric a line: ok, differs from NumPy, or the error. Signs are free.
"""

import sys
import warnings
from importlib import import_module

import numpy as np
import sklearn

import lazyflow.array as la

MODELS = {
    "decomposition": "PCA(2,svd_solver='full') PCA(2,svd_solver='covariance_eigh') "
                     "PCA(2,svd_solver='randomized',power_iteration_normalizer='QR',random_state=0)",
    "discriminant_analysis": "LinearDiscriminantAnalysis()",
    "kernel_approximation": "Nystroem(n_components=9,random_state=0)",
    "linear_model": "Ridge(solver='svd') RidgeCV() RidgeClassifier(solver='svd') "
                    "RidgeClassifierCV() LogisticRegression(tol=1e-9,max_iter=999)",
    "mixture": "GaussianMixture(2,init_params='random',random_state=0,tol=0.1)",
    "naive_bayes": "GaussianNB()",
    "preprocessing": "Binarizer() MaxAbsScaler() MinMaxScaler() Normalizer() StandardScaler() "
                     "PolynomialFeatures(2)",
}
OF_LABELS = "LabelEncoder() LabelBinarizer()"
OF_CLASSES = (
    "accuracy_score balanced_accuracy_score class_likelihood_ratios cohen_kappa_score "
    "confusion_matrix f1_score hamming_loss jaccard_score matthews_corrcoef "
    "multilabel_confusion_matrix precision_recall_fscore_support precision_score recall_score "
    "zero_one_loss"
)
OF_SCORES = (
    "average_precision_score brier_score_loss det_curve log_loss precision_recall_curve "
    "roc_auc_score roc_curve"
)
OF_NUMBERS = (
    "d2_absolute_error_score d2_pinball_score d2_tweedie_score explained_variance_score max_error "
    "mean_absolute_error mean_absolute_percentage_error mean_gamma_deviance mean_pinball_loss "
    "mean_poisson_deviance mean_squared_error mean_squared_log_error mean_tweedie_deviance "
    "median_absolute_error r2_score root_mean_squared_error root_mean_squared_log_error"
)
OF_PAIRS = (
    "additive_chi2_kernel chi2_kernel cosine_distances cosine_similarity euclidean_distances "
    "laplacian_kernel linear_kernel manhattan_distances paired_cosine_distances "
    "paired_euclidean_distances polynomial_kernel rbf_kernel sigmoid_kernel"
)

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 5))
LABELS = (X[:, 0] + X[:, 1] > 0).astype(int)
GUESSES = np.where(rng.random(60) < 0.2, 1 - LABELS, LABELS)
SCORES = np.linspace(0.01, 0.99, 60)
TARGETS = np.abs(X @ np.arange(5.0)) + 1


def fitted(make, x, y):
    """Return all that a model computes of numbers, signs apart."""
    model = eval(make, vars(import_module(f"sklearn.{MODULE_OF[make]}"))).fit(x, y)
    found = [getattr(model, name) for name in ("coef_", "means_", "theta_") if hasattr(model, name)]
    methods = [getattr(model, name, None) for name in ("transform", "predict", "predict_proba")]
    found += [method(x) for method in methods if method]
    return [abs(each) for each in found]


def of_labels(make, y):
    """Return labels as a preprocessor gives them."""
    return [eval(make, vars(import_module("sklearn.preprocessing"))).fit(y).transform(y)]


MODULE_OF = {make: module for module, names in MODELS.items() for make in names.split()}


def programs():
    """Yield names, functions and their arrays."""
    for make, module in MODULE_OF.items():
        is_of_numbers = make.startswith(("Ridge(", "RidgeCV"))
        y = TARGETS if is_of_numbers else LABELS
        yield f"{module}.{make}", lambda x, y, make=make: fitted(make, x, y), (X, y)
    for make in OF_LABELS.split():
        yield f"preprocessing.{make}", lambda y, make=make: of_labels(make, y), (LABELS,)
    for names, given in (
        (OF_CLASSES, (LABELS, GUESSES)), (OF_SCORES, (LABELS, SCORES)),
        (OF_NUMBERS, (TARGETS, TARGETS + SCORES)),
    ):
        for name in names.split():
            yield f"metrics.{name}", getattr(import_module("sklearn.metrics"), name), given
    for name in OF_PAIRS.split():
        pairs = import_module("sklearn.metrics.pairwise")
        yield f"metrics.pairwise.{name}", getattr(pairs, name), (abs(X), 2 * abs(X))


def outcome(function, given):
    """Return what is to be said of a function of arrays."""
    expected = function(*given)
    try:
        with sklearn.config_context(array_api_dispatch=True):
            found = function(*[la.from_array(x, chunks=(25, *x.shape[1:])) for x in given])
    except Exception as error:
        return f"{type(error).__name__}: {error!s:.100}"
    several = isinstance(expected, tuple | list)
    pairs = zip(found, expected, strict=True) if several else [(found, expected)]
    same = all(np.allclose(a, b, atol=1e-7) for a, b in pairs)
    return "ok" if same else "differs"


def main():
    """Print a table; return how many lines are not ok."""
    warnings.simplefilter("ignore")
    table = {name: outcome(function, given) for name, function, given in programs()}
    for name, found in table.items():
        print(f"{name:90} {found}")
    wrong = len(table) - list(table.values()).count("ok")
    print(f"scikit-learn {sklearn.__version__}: {len(table) - wrong} of {len(table)} are ok")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
