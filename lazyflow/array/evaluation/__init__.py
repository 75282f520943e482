"""From wanted expressions to results.

`as_tasks` runs the passes, makes the tasks and tells whether threads would help; `assembly` makes
the whole array of their results. `lengths` finds lengths out before.
"""
