"""Tasks, their inputs and their names, and the plans that schedulers run.

The modules in reading order, which is also that of their imports:

=============  ===================================================================================
kinds          sorts the types of arguments and results into a few kinds
guards         views of arrays that can't be written through
options        the options of a task, and ``with annotate(...)``
arguments      `Binder` puts the values of inputs into a task's arguments
task           `Task`: one call to run, which points at the tasks whose results it needs
binding        `bind` finds those tasks among the arguments, once, when the call is made
items          results with several parts, and their number from a function's annotation
function_code  the names that a function's code reads, and the functions that it wraps
tokens/        names of tasks as text, made from content if a task is pure
plan           `Plan`: the tasks below the wanted ones, as numbers and lists; `make_plan` and the
               passes in one list: merge equal tasks, fuse chains, order users
spec           the rules that every plan follows, checked by the tests
grouping       groups of small tasks, for schedulers with expensive messages
=============  ===================================================================================

A call of a `delayed` function makes a task (``binding.new_task``, or field by field in
``api/decorator.py``); `compute` calls ``plan.make_plan`` to number the tasks below it, and a
scheduler runs that plan, filling the arguments of each task by its binder.
"""
