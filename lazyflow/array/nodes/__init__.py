"""Expressions, their kinds, and the tasks that each kind makes.

In reading order:

expr, selection, block_kinds
    One operation on arrays; what a view selects; a dtype that is found out later; blocks that are
    no NumPy arrays.
sources, views, align, elementwise, reductions, scan
    Where arrays come from, and the kinds that most functions are made of.
rechunking, reshaped, joined, pieces, contraction, halo, indexing, sample_sort
    Other chunks and shapes, products, neighbours, index arrays, and sorts by many tasks.
user_calls
    Functions of blocks: lazyflow's and users' own.
task_parts, reading, blas_threads, lowering
    What tasks are made of besides blocks; how they read; what they take of BLAS; the tasks of a
    compute.
"""
