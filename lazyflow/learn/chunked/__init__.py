"""scikit-learn's tools for chunked arrays, which are never gathered; only small results are.

`scaling`    StandardScaler: means and variances in one pass over the chunks
`splitting`  train_test_split, within chunks
`metrics`    accuracy_score, log_loss, mean_squared_error, r2_score

`rows`       arrays with equal chunks of rows, sums over their chunks, and moments of columns

Data in memory goes to scikit-learn, which must be installed. Nothing is imported here, so that a
program loads only the modules that it uses.
"""

__all__ = ["metrics", "rows", "scaling", "splitting"]
