"""scikit-learn's tools for chunked arrays, which are never gathered: what is left is small.

`scaling`    StandardScaler: means and variances in one pass over the chunks
`splitting`  train_test_split, within chunks
`metrics`    accuracy_score, log_loss, mean_squared_error, r2_score

`rows`     arrays whose rows are cut alike, and sums over their chunks
`moments`  weights, means and squared deviations of columns, which can be merged

What is in memory goes to scikit-learn, which is needed. Nothing is imported here, so that a
program loads only what it uses.
"""

__all__ = ["losses", "metrics", "moments", "rows", "scaling", "splitting"]
