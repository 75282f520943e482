"""Your own functions on blocks, slices, windows and elements of arrays.

In reading order:

    block_layout.py   blocks that go together, by labels of axes
    map_blocks.py     map_blocks, blockwise, fromfunction, x.blocks[0, 1:]
    reduction.py      reductions in a tree
    gufuncs.py        apply_gufunc, gufunc, as_gufunc, their signatures; gufuncs of other packages
    along_axes.py     slices, single elements, sliding windows

A function is bound to its arguments and called once for each block of the result
(nodes/user_calls.py), with the blocks that `block_layout.input_blocks` chooses.
`map_overlap` is in ../overlap.py, which is public as ``la.overlap``.
"""
