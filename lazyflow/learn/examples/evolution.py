"""Evolution strategies on a cart-pole: a policy moves towards those of its neighbours that do well.

In each step actors try out pairs of neighbours, one on each side of the policy, and report how
long each kept the pole up; the policy moves along the differences, weighed by their ranks. The
policy is put once per step, and all actors read that one copy. Workers send back returns: each
side makes the noise again from its seed.

The cart-pole is that of Barto, Sutton and Anderson (1983) with the constants that Gym has used
since; the strategy is that of Salimans et al., "Evolution Strategies as a Scalable Alternative to
Reinforcement Learning" (2017). 195 is the return at which Gym calls the problem solved; 200 is all
that an episode has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import lazyflow

WORKERS, PAIRS, STEPS = 4, 16, 8
SIGMA, RATE = 0.5, 1.0
LONGEST, GOAL = 200, 195.0

_GRAVITY, _CART, _POLE, _LENGTH, _FORCE, _SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
_ANGLE, _PLACE = 12 * np.pi / 180, 2.4


def rollouts(policies: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return for how many steps each policy keeps the pole up.

    Parameters
    ----------
    policies
        Shape (n, 4): the cart is pushed to the right where the state times the policy is positive.
    starts
        Shape (n, 4) or (4,): place and speed of the cart, angle and turn of the pole.

    Returns
    -------
    ndarray
        Shape (n,), from 1 to 200.

    Examples
    --------
    >>> rollouts(np.array([[0, 0, 0, 0], [0.1, 0.5, 3.0, 3.0]]), np.full(4, 0.01))
    array([  9, 200])
    """
    x, speed, angle, turn = np.broadcast_to(starts, policies.shape).T
    lasted = np.zeros(len(policies), int)
    up = np.ones(len(policies), bool)
    mass = _CART + _POLE
    for _ in range(LONGEST):
        lasted += up
        state = np.stack([x, speed, angle, turn], axis=1)
        force = np.where((state * policies).sum(axis=1) > 0, _FORCE, -_FORCE)
        sine, cosine = np.sin(angle), np.cos(angle)
        push = (force + _POLE * _LENGTH * turn**2 * sine) / mass
        bend = (_GRAVITY * sine - cosine * push) / (
            _LENGTH * (4 / 3 - _POLE * cosine**2 / mass))
        drive = push - _POLE * _LENGTH * bend * cosine / mass
        x, speed = x + _SECONDS * speed, speed + _SECONDS * drive
        angle, turn = angle + _SECONDS * turn, turn + _SECONDS * bend
        up &= (abs(x) < _PLACE) & (abs(angle) < _ANGLE)
    return lasted


def start(*seed: int, count: int = 1) -> np.ndarray:
    """Return random states, shape (count, 4)."""
    return np.random.default_rng(seed).uniform(-0.05, 0.05, (count, 4))


def noise(*seed: int) -> np.ndarray:
    """Return the steps to the neighbours of one pair after the other, shape (pairs, 4)."""
    return np.random.default_rng(seed).normal(size=(PAIRS // WORKERS, 4))


class Rollouts:
    """Tries out neighbours of a policy."""

    def __init__(self, worker: int) -> None:
        self.worker = worker

    def returns(self, policy: np.ndarray, seed: int, step: int) -> np.ndarray:
        """Return the returns of the pairs of this worker, shape (2, pairs)."""
        away = SIGMA * noise(seed, step, self.worker)
        both = np.concatenate([policy + away, policy - away])
        return rollouts(both, start(seed, step, self.worker)).reshape(2, -1)


class Trained(NamedTuple):
    """The outcome of the strategy: the policy, and the mean return before each step and after."""

    policy: np.ndarray
    returns: list[float]

    @property
    def reached(self) -> bool:
        """Whether the pole is kept up for as long as Gym asks for."""
        return self.returns[-1] >= GOAL


def train(seed: int = 0, steps: int = STEPS) -> Trained:
    """Train a policy; the same seed gives the same policy on every scheduler."""
    workers = [lazyflow.actor(Rollouts)(k) for k in range(WORKERS)]
    policy = np.zeros(4)
    returns = [score(policy)]
    for step in range(steps):
        held = lazyflow.put(policy)
        tried = [worker.returns(held, seed, step) for worker in workers]
        found = np.concatenate([future.result() for future in tried], axis=1)
        away = np.concatenate([noise(seed, step, k) for k in range(WORKERS)])
        ranks = found.ravel().argsort(kind="stable").argsort(kind="stable").reshape(2, -1)
        weights = (ranks[0] - ranks[1]) / (found.size - 1)
        policy = policy + RATE / (PAIRS * SIGMA) * (weights[:, None] * away).sum(axis=0)
        returns.append(score(policy))
    return Trained(policy, returns)


def score(policy: np.ndarray) -> float:
    """Return the mean return of a policy over 100 episodes that no step has seen."""
    return float(rollouts(np.tile(policy, (100, 1)), start(2**32, count=100)).mean())


def main(scheduler: str = "threads") -> Trained:
    """Train a policy and print how; the goal is a mean return of 195 after 8 steps."""
    print(
        f"Evolution strategies on a cart-pole: {WORKERS} actors, {PAIRS} pairs a step, "
        f"scheduler {scheduler}"
    )
    with lazyflow.config.set(scheduler=scheduler):
        trained = train()
    print(f"  {'step':>6}  {'return':>8}")
    for step, found in enumerate(trained.returns):
        print(f"  {step:>6}  {found:>8.1f}")
    verdict = "ok" if trained.reached else "MISSED"
    print(f"  mean return of 100 episodes {trained.returns[-1]:.1f}; goal >= {GOAL:g}  {verdict}")
    return trained
