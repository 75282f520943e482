"""Rows to train on: taken from where they are, checked once, kept in chunks.

`inputs`  arrays, sparse matrices, chunked arrays and lists of lazy chunks as parts of rows; small
          neighbours are joined, and parts that do not fit in memory are read again in every pass
`labels`  the classes among the labels of all parts, and weights of rows by them
`rows`    all parts, checked, with their names in errors, kept on the workers
"""
