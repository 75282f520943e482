"""Handles of actors in processes that did not make them.

A handle is pickled as an address and a number. The process that made the actor, its owner, listens
at the address from the first time that one of its handles is pickled; a process that unpickles the
handle, a borrower, connects to it, once for all handles of that owner::

    borrower                                   owner
    Actor -- BorrowedActor -- OwnerLink ~~~~~~ BorrowerLink -- ActorExchange -- the actor's host
                                  socket                          |
                                                            actors by number

Calls go to the owner, which makes them as its own. So there is one order, one place that knows
which calls have run when the actor dies, and every process can use actors of all schedulers. All
arguments and results of calls pass through the owner, which copies an array twice.

An actor lives while its owner has a handle, or a borrower has reported that it holds one. The
borrower reports this before the handle can be used, and withdraws it when its last handle is
collected; when its connection ends, all its handles are given up. While a pickled handle is on its
way, its sender keeps the actor:

- handles in arguments of tasks and calls, and in `put` values, by the objects that hold the pickle;
- handles that a borrower returns as a result or pickles otherwise, and those of `pickle.dumps`, as
  long as the owner lives or until `lazyflow.shutdown()`, since they may be read many times.

The modules:

    wire.py      the socket: messages, and the proof that both ends know the key
    borrowed.py  the borrower's side
    exchange.py  the owner's side
"""
