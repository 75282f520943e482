"""The schedulers that keep actors, as fixtures."""

from actor_schedulers import (  # noqa: F401
    client,
    processes,
    ray,
    scheduled,
    scheduler,
    separate,
)
