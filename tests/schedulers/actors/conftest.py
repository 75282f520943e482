"""The schedulers that keep actors, as fixtures."""

from actor_schedulers import (  # noqa: F401
    client,
    cluster,
    processes,
    ray,
    remote,
    scheduled,
    scheduler,
    separate,
)
