"""Which workers of a cluster may run a task that names some, or needs something of them.

A cluster is given as its scheduler describes it: by address, ``name``, ``host`` and ``resources``
of each worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_MOST_SHOWN = 8


def chosen(workers: Sequence[Any], cluster: Mapping[str, Any]) -> list[str]:
    """Return the addresses of workers that are given by address, name or host.

    >>> cluster = {"tcp://10.0.0.1:5": {"name": "big", "host": "10.0.0.1"}}
    >>> chosen(["big"], cluster), chosen(["10.0.0.1", "small"], cluster), chosen([0], cluster)
    (['tcp://10.0.0.1:5'], ['tcp://10.0.0.1:5'], [])
    """
    return [
        address for address, worker in cluster.items()
        if any(each in _names(address, worker) for each in workers)
    ]


def _names(address: str, worker: Any) -> tuple[Any, ...]:
    return address, address.partition("://")[2], worker.get("name"), worker.get("host")


def refusal(
    workers: Sequence[Any] | None, resources: Mapping[str, float] | None, cluster: Mapping[str, Any]
) -> str:
    """Return why no worker of a cluster may run such a task; empty if one may.

    >>> cluster = {"tcp://10.0.0.1:5": {"name": "big", "resources": {"GPU": 1}}}
    >>> refusal(["big"], {"GPU": 1}, cluster)
    ''
    >>> refusal(["small"], None, cluster)[:42]
    "the cluster has no worker 'small'; it has "
    """
    for each in workers or ():
        if not chosen([each], cluster):
            return (
                f"the cluster has no worker {each!r}; it has {_shown(cluster)}. Name workers by "
                "their names, addresses or hosts: dask worker --name big, for example."
            )
    if not resources:
        return ""
    may = cluster if workers is None else {a: cluster[a] for a in chosen(workers, cluster)}
    offered = [worker.get("resources") or {} for worker in may.values()]
    if any(all(have.get(k, 0) >= v for k, v in resources.items()) for have in offered):
        return ""
    whose = "worker of the cluster" if workers is None else f"worker of {list(workers)!r}"
    return (
        f"no {whose} offers {dict(resources)!r}; they have {offered!r}. Start "
        "one that does: dask worker --resources \"GPU=1\", for example."
    )


def _shown(cluster: Mapping[str, Any]) -> str:
    names = [
        address if worker.get("name") in (None, address) else f"{worker['name']!r} ({address})"
        for address, worker in sorted(cluster.items(), key=lambda item: str(item[1].get("name")))
    ]
    more = len(names) - _MOST_SHOWN
    return ", ".join(names[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "") or "none"
