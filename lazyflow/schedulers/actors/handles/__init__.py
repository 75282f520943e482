"""Handles of actors in processes that did not make them.

A handle is pickled as an address and a number. The process that made the actor, its owner, listens
at the address from the first time that one of its handles is pickled; a process that unpickles the
handle, a borrower, connects to it, once for all handles of that owner::

    borrower                                   owner
    Actor -- BorrowedActor -- OwnerLink ~~~~~~ BorrowerLink -- ActorExchange -- the actor's host
                                  socket                          |
                                                            actors by number

Calls go to the owner, which makes them as its own: so there is one order, one place that knows
which calls have run when the actor dies, and actors of all schedulers can be had everywhere. All
that calls are given and return passes through the owner; on its way an array is copied twice.

An actor lives while its owner has a handle, or a borrower has told that it holds one: it tells
before the handle can be used, and takes that back when its last handle is collected; what it held
is free when its connection ends. While a pickled handle is under way, its sender keeps the actor:

- arguments of tasks and calls, and values that were put, by the objects that hold the pickle;
- what a borrower returns as a result, or pickles otherwise, and what `pickle.dumps` makes, for as
  long as the owner lives or until `lazyflow.shutdown()`: nobody knows how often it will be read.

The modules:

    borrowed.py  the borrower's side, and the socket: frames, and the proof that both know the key
    exchange.py  the owner's side
"""
