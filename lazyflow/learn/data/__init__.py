"""Rows to train on: taken from where they are, checked once, kept in chunks.

`inputs`    arrays, sparse matrices, chunked arrays and lists of lazy chunks as parts of rows
`joining`   small neighbours as one
`places`    what errors call parts and rows
`keeping`   whether they fit in memory, or are read again in every pass
`targets`   classes and numbers to be learned, and how a part's are encoded
`checking`  one part: the right types, finite numbers, or an error that names the row
`rows`      all parts, kept where the workers are, and what is known of them
"""
