"""What users call, and what they hold: lazy values, futures, collections and actors.

`lazy` and `decorator` build graphs; `targets` finds what is asked for in nested containers, and
`evaluate` computes it; `waiting`, `arrivals`, `futures` and `retrying` are about results that come
later; `graph_pickle` is how lazy values travel; `actors`, `actor_pool`, `pending_calls`,
`worker_states` and `lock` are objects with a state of their own.
"""
