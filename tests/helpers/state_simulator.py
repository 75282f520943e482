"""Chance: random histories of `State`, with everything that threads and sockets allow.

Each move is one small thing in one place. After each the books are checked; when no trouble is
made any more all has to come to its end, and then nothing may be left.
"""

from typing import Any

from fake_callers import Future, Remote, Run
from fake_worker import Fake, number_of
from state_checks import Checked

from lazyflow.schedulers.processes.decisions import assignment, events
from lazyflow.schedulers.processes.decisions.nodes import Node


class Simulator(Checked):
    """Lets things happen."""

    def __init__(self, seed: int, **limits: float) -> None:
        super().__init__(seed, **limits)
        self.is_ending = False

    def moves(self) -> list[tuple[float, Any, tuple[Any, ...]]]:
        """Return what can happen next: weight, what, and its arguments."""
        state = self.state
        found: list[tuple[float, Any, tuple[Any, ...]]] = []
        for worker, fake in self.fakes.items():
            if not worker.up:
                found.append((5, events.worker_up, (state, worker)))
            else:
                if fake.can_step():
                    found.append((10, fake.step, ()))
                if fake.batch is not None and self.has_news(fake.batch):
                    found.append((1, fake.answer, ()))
            if fake.requests and worker.up:
                found.append((6, fake.serve, ()))
            if fake.answers:
                found.append((8, self.read_answer, (fake,)))
            if fake.told:
                found.append((8, self.read_told, (fake,)))
            if worker.to_drop and worker.up:
                found.append((3, self.send_drops, (fake,)))
        if self.inbox:
            found.append((8, self.run_inbox, ()))
        if self.unread:
            found.append((5, self._add_first, ()))
        if self.unpacked:
            found.append((5, self.pack, ()))
        if self.lazy:
            found.append((3, self.provide, ()))
        found += [(2, self.provide_outside, (n,)) for n in self.outside if n.job.run.is_added]
        if state.refcounts.unsafe:
            found.append((1, events.make_safe, (state,)))
        if not self.is_ending:
            found += self._troubles()
        return found

    @staticmethod
    def has_news(batch: Any) -> bool:
        return bool(batch.done or batch.failed or batch.deferred)

    def _troubles(self) -> list[tuple[float, Any, tuple[Any, ...]]]:
        found: list[tuple[float, Any, tuple[Any, ...]]] = []
        state, rng = self.state, self.rng
        for worker, fake in self.fakes.items():
            found.append((0.25 * self.limits.kills, self.kill, (fake, self.chance(0.3))))
            if self.chance(0.05):
                found.append((0.5, self.doom, (fake,)))
            if worker.batches:
                number = rng.choice(worker.batches).number
                found.append((1, events.overdue, (state, worker, number)))
                found.append((0.3, events.recall, (state, worker)))
        running = [r for r in self.runs if r.is_added and not r.over]
        if len(running) + len(self.unread) < self.limits.jobs:
            found.append((2, self.link, ()))
        if running:
            run = rng.choice(running)
            found.append((0.4, self.cancel, (run,)))
            dropped = [f for f in run.futures.values() if f.outcome is None and not f.is_dropped]
            if dropped:
                found.append((0.5, self.drop_future, (rng.choice(dropped),)))
        if self.remotes:
            remote = rng.choice(self.remotes)
            found.append((1, self.fetch, (remote,)))
            found.append((1.5, self.drop_remote, (rng.choice(self.remotes),)))
        return found

    def doom(self, fake: Fake) -> None:
        """Send the signal that will end a worker."""
        fake.worker.doomed = True

    def _add_first(self) -> None:
        self.add(self.unread.pop(0))

    def run_inbox(self) -> None:
        """Do all that other threads posted, before any instruction is carried out."""
        while self.inbox:
            what, *details = self.inbox.popleft()
            if what == "unpin":
                events.unpin(self.state, details[0])
            else:
                node, outcome = details
                if isinstance(outcome, tuple):
                    events.fail(self.state, node, outcome)

    def cancel(self, run: Run) -> None:
        run.is_cancelled = True
        run.error = ("outside", 0)
        for future in run.futures.values():
            if future.outcome is None:
                self._resolve(future, ("outside", 0))
        self._end(run)

    def drop_future(self, future: Future) -> None:
        """Drop one that has no value yet: what only it needed is given up."""
        if any(future is held for run in self.runs for held in run.holds):
            return
        future.is_dropped = True
        run = future.run
        dropped = [n for n, f in run.futures.items() if f.is_dropped]
        if all(n in dropped or f.outcome is not None for n, f in run.futures.items()):
            self.cancel(run)
            return
        needed: set[Node] = set()
        todo = [n for n in run.outputs if n not in dropped]
        while todo:
            node = todo.pop()
            if node not in needed:
                needed.add(node)
                todo.extend(s for s in self.inputs_of(node) if s.job is run.job)
        unneeded = [n for n in run.own if n not in needed]
        self.rng.shuffle(unneeded)
        events.give_up(self.state, unneeded)
        run.wanted.difference_update(unneeded)
        self._finish_if_made(run)

    def fetch(self, remote: Remote) -> None:
        self.fetches[remote.node] += 1
        events.want(self.state, remote.node)

    def drop_remote(self, remote: Remote) -> None:
        if self.fetches[remote.node]:  # who fetches it holds it
            return
        for future in remote.node.job.run.futures.values():
            if future.outcome is remote:
                if future.is_dropped:
                    return
                future.is_dropped = True
        for run in self.runs:  # plans that name its future hold it
            if any(isinstance(h, Future) and h.outcome is remote for h in run.holds):
                return
        self._release(remote)

    def move(self) -> bool:
        """Let one thing happen; False when nothing can."""
        moves = self.moves()
        if not moves:
            return False
        weights = [weight for weight, _, _ in moves]
        _, call, given = self.rng.choices(moves, weights)[0]
        if call == self.read_answer:  # the driver does, between two answers
            self.perform()
        waiting, deaths = self.waiting_in_front(), self.deaths
        is_one = not self.state.out
        self.sent.clear()
        self.log.append((call.__qualname__, given))
        call(*given)
        if not self.chance(self.limits.batches) or call == self.kill:
            self.perform()
            if is_one and deaths == self.deaths:  # a death is several events
                self.check_order(waiting)
            if self.chance(self.limits.checks):
                self.check()
        return True

    def play(self, events: int) -> None:
        """Let this many things happen, then bring all to an end."""
        for _ in range(events):
            if not self.move():
                self.link()
        self.finish()

    def finish(self) -> None:
        self.is_ending = True
        for fake in list(self.fakes.values()):
            if fake.worker.doomed:
                self.kill(fake, forced=True)
        self._settle()
        for run in self.runs:
            assert run.over, f"nothing happens any more, and {run.job} is not over"
            self._check_results(run)
        assert not self.fetches, f"nobody brings {self.fetches}"
        for run in self.runs:
            for future in run.futures.values():
                future.is_dropped = True
            self._let_go(run)
        for remote in list(self.remotes):
            self._release(remote)
        self._settle()
        self._check_nothing_left()

    def _settle(self) -> None:
        for _ in range(100_000):
            self.perform()
            if not self.move():
                break
        else:
            raise AssertionError("it does not come to rest")
        self.perform()
        self.check()

    def _check_results(self, run: Run) -> None:
        if run.is_cancelled or (run.error is not None and not run.collect):
            return
        for node in run.outputs:
            future = run.futures.get(node)
            if future is not None and future.is_dropped:
                continue
            result = run.results[node]
            if isinstance(result, tuple):
                self._check_error(node, result[1:])
            else:
                if not isinstance(result, Remote):
                    assert number_of(result) == run.expected[node]
                assert all(
                    self.tasks[n].fate != "fails" for n in self.ancestors(node)
                ), "a value, though a task that it needs fails"

    def _check_nothing_left(self) -> None:
        state = self.state
        assert not state.jobs[0] and not state.jobs[1]
        assert not state.refcounts.unsafe
        assert not self.held, f"not freed: {self.held}"
        for run in self.runs:
            assert not any(map(self.is_encoded, run.own))
            assert run.is_cleared, f"{run.job} was not cleared"
            assert not run.job.active
        assignment.assign(state)
        assert not any(state.queues.rota) and not any(map(list, state.queues.by_priority))
        assert not state.queues.queued and not state.queues.waiters and not state.queues.stuck
        for worker, fake in self.fakes.items():
            assert not any(lane.queue or lane.following or lane.arrived for lane in worker.lanes)
            assert not worker.holding and not worker.batches and not worker.fetching
            assert not fake.values, f"{worker} keeps {fake.values}"
