"""Rows to train on: taken from where they are, checked once, kept in chunks.

`inputs`  arrays, sparse matrices, chunked arrays and lists of lazy chunks as parts of rows; small
          neighbours are one, and what does not fit in memory is read again in every pass
`rows`    all parts, checked, with what errors call them, kept where the workers are
"""
