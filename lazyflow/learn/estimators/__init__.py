"""Linear models with scikit-learn's names and semantics, on rows in memory or in chunks.

`linear_estimator`     shared code: taking rows, storing results, scores of chunks
`logistic_regression`  `LogisticRegression`, for two or more classes
`least_squares`        `LinearRegression`, `Ridge`, `ElasticNet` and `Lasso`
"""
