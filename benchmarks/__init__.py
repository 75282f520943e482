"""What lazyflow costs, measured beside the libraries it would replace.

`python -m benchmarks` lists what there is. Each benchmark is a module with a ``main(argv)``; the
first line of its docstring is the sentence in the list. Both sides of every comparison run in one
process, take turns, are warmed alike and call the same functions; garbage collection stays on.
"""
