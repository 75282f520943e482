"""Linear models with scikit-learn's names and semantics, on rows in memory or in chunks.

`linear_estimator`     shared code: taking rows, storing results, scores of chunks
`logistic_regression`  `LogisticRegression`, for two or more classes
`least_squares`        `LinearRegression` and `Ridge`
`elastic_net`          `ElasticNet` and `Lasso`
`classes`              classes and their weights, over all parts
"""
