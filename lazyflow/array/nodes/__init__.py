"""Expressions, their kinds, and the tasks that each makes: `expr` and `lowering` first."""
