"""Training by actors: DataParallel, and the examples on actors that have each other's handles."""

import http.client
import json
import os
import signal
import threading

import numpy as np
import pytest
from actor_schedulers import client, ray, remote, scheduler, separate  # noqa: F401

import lazyflow
from lazyflow import WorkerDied, demo
from lazyflow.learn import DataParallel
from lazyflow.learn.examples import data_parallel, evolution, parameter_server, serving
from lazyflow.testing.signals import Gate, Tally

# -- DataParallel ---------------------------------------------------------------------------


class Line:
    """A linear model of two columns, by gradient descent with momentum."""

    def __init__(self, start=0.0):
        self.w, self.speed = np.full(2, start), np.zeros(2)

    def get_weights(self):
        return [self.w]

    def set_weights(self, weights):
        (self.w,) = weights

    def get_state(self):
        return self.w, self.speed

    def set_state(self, state):
        self.w, self.speed = state

    def gradients(self, X, y):
        off = X @ self.w - y
        return float((off**2).mean()), [2 * (X.T @ off) / len(X)]

    def apply(self, gradient):
        self.speed = 0.5 * self.speed + gradient[0]
        self.w = self.w - 0.1 * self.speed


def data(steps, rows=40):
    random = np.random.default_rng(0)
    X = random.normal(size=(steps, rows, 2))
    return [(x, x @ [1.0, -2.0]) for x in X]


def plain(batches, workers):
    """Train one model on the same parts, added as the tree adds them."""
    model, losses = Line(), []

    def total(parts, k):
        if k >= len(parts):
            return None
        sums = parts[k]
        for below in (total(parts, 2 * k + 1), total(parts, 2 * k + 2)):
            if below is not None:
                sums = [a + b for a, b in zip(sums, below, strict=True)]
        return sums

    for X, y in batches:
        parts = []
        for p, q in zip(np.array_split(X, workers), np.array_split(y, workers), strict=True):
            loss, (gradient,) = model.gradients(p, q)
            parts.append([loss * len(p), gradient * len(p)])
        loss, gradient = total(parts, 0)
        losses.append(loss / len(X))
        model.apply([gradient / len(X)])
    return losses, model.w


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8])
def test_losses_are_those_of_one_process(scheduler, workers):  # noqa: F811
    if scheduler != "threads" and workers > 3:
        pytest.skip("the tree is the same one everywhere")
    batches = data(12, rows=41)
    with lazyflow.config.set(scheduler=scheduler):
        training = DataParallel(Line, workers=workers)
        losses = training.fit(batches[:5]) + training.fit(batches[5:])
    expected, w = plain(batches, workers)
    assert losses == expected
    np.testing.assert_array_equal(training.weights()[0], w)


def test_batches_may_have_fewer_rows_than_workers():
    training = DataParallel(Line, workers=4, scheduler="threads")
    assert training.fit(data(3, rows=2)) == plain(data(3, rows=2), 2)[0]
    with pytest.raises(ValueError, match="has 0 rows and 0 targets"):
        training.fit([(np.ones((0, 2)), np.ones(0))])
    with pytest.raises(ValueError, match="has 2 rows and 3 targets"):
        training.fit([(np.ones((2, 2)), np.ones(3))])


def test_all_start_with_the_weights_of_the_first():
    made = Tally()
    training = DataParallel(lambda: Line(made.add(0)), workers=3, scheduler="threads")
    (start,) = training.weights()
    training.fit(data(2))
    model = Line(start[0])
    X, y = data(1)[0]
    loss = model.gradients(X, y)[0]
    assert training._replicas[0].steps().result() == 2
    again = DataParallel(lambda: Line(start[0]), workers=1, scheduler="sync")
    assert again.fit(data(1)) == pytest.approx([loss])


class Dies(Line):
    """Kills its process in one of all the calls of a method."""

    def __init__(self, method, at, calls):
        super().__init__()
        self._dies = method, at, calls

    def _call(self, method):
        dying, at, calls = self._dies
        if method == dying and calls.add(os.getpid()) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def gradients(self, X, y):
        self._call("gradients")
        return super().gradients(X, y)

    def apply(self, gradient):
        self._call("apply")
        super().apply(gradient)


@pytest.mark.parametrize("method", ["gradients", "apply"])
@pytest.mark.parametrize("at", [7, 8, 9])
def test_training_goes_on_when_a_process_dies(separate, method, at):  # noqa: F811
    calls = Tally()
    with lazyflow.config.set(scheduler=separate):
        training = DataParallel(lambda: Dies(method, at, calls), workers=3)
        losses = training.fit(data(6))
    expected, w = plain(data(6), 3)
    assert losses == expected
    np.testing.assert_array_equal(training.weights()[0], w)
    assert len(set(calls.items())) == 4  # three processes, and the one that followed


def test_training_fails_when_too_many_processes_die():
    with pytest.raises(WorkerDied, match="SIGKILL"):
        DataParallel(
            lambda: Dies("gradients", 1, Tally()), workers=1, restarts=1, scheduler="processes",
        ).fit(data(1))


def test_errors_of_models():
    with pytest.raises(TypeError, match="can't train a list: model_fn has to return"):
        DataParallel(list, len, len, scheduler="sync").fit(data(1))
    with pytest.raises(TypeError, match="needs loss_fn and optimizer_fn for a list"):
        DataParallel(list, scheduler="threads").fit(data(1))
    with pytest.raises(ValueError, match="workers must be a whole number, 1 or more; got 0"):
        DataParallel(Line, workers=0)


# -- examples -------------------------------------------------------------------------------


def test_the_network_of_the_digits(scheduler, capsys):  # noqa: F811
    # distributed keeps gradients and checkpoints in the cluster, which takes long
    outcome = data_parallel.main(scheduler, 1 if scheduler == "distributed" else 8)
    assert outcome.are_equal and outcome.reached == (scheduler != "distributed")
    assert "losses of one process, bit for bit: equal" in capsys.readouterr().out


def test_the_cart_pole_is_learned_alike_everywhere(scheduler, capsys):  # noqa: F811
    outcome = evolution.main(scheduler)
    assert outcome.reached
    assert outcome.returns[0] < 20 and len(outcome.returns) == evolution.STEPS + 1
    with lazyflow.config.set(scheduler="sync"):
        assert evolution.train().returns == outcome.returns
    assert capsys.readouterr().out.rstrip().endswith("ok")


@pytest.mark.parametrize("seed", range(5))
def test_the_cart_pole_is_learned_from_other_seeds(seed):
    with lazyflow.config.set(scheduler="sync"):
        assert evolution.train(seed).reached


@pytest.mark.parametrize("with_handles", [False, True])
def test_an_asynchronous_parameter_server(scheduler, with_handles, capsys):  # noqa: F811
    outcome = parameter_server.main(scheduler, with_handles=with_handles)
    assert outcome.reached
    assert capsys.readouterr().out.rstrip().endswith("ok")


def test_options_of_the_demo(capsys):
    assert demo.main(["--example", "parameter-server-handles", "--scheduler", "threads"]) == 0
    assert "by themselves" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        demo.main(["--example", "evolution", "--framework", "torch"])
    assert "--framework torch is for --example" in capsys.readouterr().err


# -- serving --------------------------------------------------------------------------------


class Doubler:
    """A model that waits at a gate, or ends its process, when a row asks for that."""

    def __init__(self, gate, begun):
        self.gate, self.begun = gate, begun

    def predict(self, rows):
        if (rows == -1).any():
            self.begun.open()
            self.gate.wait()
        if (rows == -2).any():
            os.kill(os.getpid(), signal.SIGKILL)
        return [float(2 * row[0]) for row in rows]


class Server:
    """An application that is served, and requests to it."""

    def __init__(self, where, replicas=1, **options):
        self.gate, self.begun = Gate(), Gate()
        model = lazyflow.actor(Doubler, scheduler=where, restarts=1)
        actors = [model(self.gate, self.begun) for _ in range(replicas)]
        self.batcher = serving.Batcher(lazyflow.ActorPool(actors), **options)
        self.app = serving.application(lambda: self.batcher, columns=1)

    def __enter__(self):
        self._serving = serving.serving(self.app)
        self.port = self._serving.__enter__()
        return self

    def __exit__(self, *exc):
        self.gate.open()
        self._serving.__exit__(*exc)

    def ask(self, *values, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        body = json.dumps({"rows": [[v] for v in values]}) if body is None else body
        connection.request("POST", "/predict", body)
        answer = connection.getresponse()
        found = answer.status, json.loads(answer.read())
        connection.close()
        return found

    def later(self, *values):
        found = []
        thread = threading.Thread(target=lambda: found.append(self.ask(*values)))
        thread.start()
        return thread, found


def test_requests_are_answered_in_batches():
    with Server("threads", patience=60.0, size=6) as server:
        waiting = [server.later(k, k + 0.5) for k in range(3)]  # the third one fills the batch
        for thread, _ in waiting:
            thread.join()
        assert [found for _, (found,) in waiting] == [
            (200, {"predictions": [2.0 * k, 2.0 * k + 1]}) for k in range(3)]
        assert server.batcher.batches == [6]


def test_a_batch_has_no_more_rows_than_it_may():
    with Server("threads", patience=60.0, size=4) as server:
        first, found = server.later(1, 2, 3)
        while not server.batcher._waiting:
            pass
        second = server.later(4, 5, 6, 7)
        for thread in (first, second[0]):
            thread.join()
        assert [content["predictions"] for _, content in found + second[1]] == [
            [2.0, 4.0, 6.0], [8.0, 10.0, 12.0, 14.0]]
        assert server.batcher.batches == [3, 4]


def test_bad_requests_are_told():
    with Server("threads") as server:
        for body in ("{", "[]", '{"row": 1}', '{"rows": [[1, 2]]}', '{"rows": []}',
                     '{"rows": [["a"]]}'):
            status, content = server.ask(body=body)
            assert status == 400 and content["error"]
        assert server.ask(3) == (200, {"predictions": [6.0]})


def test_more_requests_than_the_limit_are_refused():
    with Server("threads", limit=3, patience=0.0) as server:
        thread, found = server.later(-1, 1)
        assert server.begun.wait()
        assert server.ask(1, 2)[0] == 503
        assert "2 rows wait already" in server.ask(1, 2)[1]["error"]
        server.gate.open()
        thread.join()
        assert found == [(200, {"predictions": [-2.0, 2.0]})]
        assert server.ask(1, 2) == (200, {"predictions": [2.0, 4.0]})


def test_a_replica_that_dies_loses_the_requests_that_it_ran(separate):  # noqa: F811
    with Server(separate, replicas=2, patience=0.0) as server:
        thread, found = server.later(-1)
        assert server.begun.wait()
        status, content = server.ask(-2)
        assert status == 500 and "Doubler.predict" in content["error"]
        assert server.ask(4) == (200, {"predictions": [8.0]})  # the other one, or it started again
        server.gate.open()
        thread.join()
        assert found == [(200, {"predictions": [-2.0]})]


def test_the_server_listens_on_this_machine_alone():
    with Server("threads") as server:
        sockets = server._serving.gen.gi_frame.f_locals["server"].servers[0].sockets
        assert [sock.getsockname()[0] for sock in sockets] == ["127.0.0.1"]


def test_the_digits_are_served(scheduler, capsys):  # noqa: F811
    outcome = serving.main(scheduler)
    assert outcome.reached and outcome.rate > 0 and outcome.rows >= 1
    assert "requests/s" in capsys.readouterr().out
