"""Indices, ``x[...]``, and the nodes that take and write elements.

    keys.py      the entries of an index; views for slices and integers
    gather.py    points, by index arrays
    exchange.py  the tasks that gather points: from memory, or by an exchange between blocks
    masks.py     elements chosen by boolean arrays
    assign.py    an array in which some elements are replaced
"""
