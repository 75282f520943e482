"""From wanted expressions to results.

`as_tasks` runs the passes and makes the tasks, `assembly` makes the whole array of their results.
`lengths` finds lengths out before; `light` tells whether threads would help.
"""
