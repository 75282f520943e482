"""Expressions, their kinds, and the tasks that each kind makes.

In reading order:

expr, selection, block_kinds
    One operation on arrays, and dtypes that are found later; what a view selects; blocks of other
    libraries.
sources, views, align, elementwise, reductions, scan
    Arrays of memory and stores; slices; common chunks of operands (`common_chunks`); operations
    before fusion; reductions: parts of blocks, merged sixteen at a time; cumulative sums.
rechunking, reshaped, joined, pieces, contraction, halo, indexing, sample_sort,
value_ranges
    Other chunks and shapes, products, neighbours, index arrays, sorts by many tasks, and tables of
    values that are merged by ranges.
user_calls
    Functions of blocks: lazyflow's and users' own.
task_parts, reading, blas_threads, lowering
    Details of tasks; how they read their inputs; their threads of BLAS; all tasks of a compute.
"""
