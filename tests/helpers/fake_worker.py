"""A worker without a process: what a worker is as far as messages can tell.

It runs batches in order, keeps values and drops them when it is told, answers in parts, gives
tasks back, and dies. A value is a number that says how it was made, so a task that is given a
wrong or an old input is found out at once.
"""

from collections import Counter, deque
from types import SimpleNamespace
from typing import Any

from lazyflow.graph.options import Options
from lazyflow.schedulers.processes.decisions.nodes import Node, WorkerRecord

SHORT, SMALL, LARGE = "short", "small", "large"
MASK = (1 << 40) - 1


class Value:
    """What the parent has of a value that is more than a number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"<Value {self.number}>"


class Literal(Value):
    """A value of the caller's: it can be encoded again when it is needed again."""

    is_encoded = False

    @property
    def encoded(self) -> Any:
        return self if self.is_encoded else None


LATER = "later"  # in a worker: another run will make it


class Failed:
    """In a worker: stands for the result of a task that failed."""

    def __init__(self, error: Any) -> None:
        self.error = error


class Task:
    """What happens when a task is run.

    fate
        "ok", "fails", or "lazy": it returns something that another run has to compute.
    kind
        How the result travels: SHORT with the answer, SMALL encoded with it, LARGE when asked.
    deaths
        How often it kills its worker before it comes to an end.
    sticks
        Its value can't be pickled.
    """

    def __init__(self, uid: int, fate: str = "ok", kind: str = SHORT) -> None:
        self.uid = uid
        self.fate = fate
        self.kind = kind
        self.deaths = 0
        self.sticks = False
        self._options = Options(label=f"task{uid}")
        self._func: Any = None
        self._code, self._lasti = None, 0

    def result(self, numbers: list[int]) -> int:
        return hash((self.uid, *numbers)) & MASK


def number_of(value: Any) -> int:
    return value.number if isinstance(value, Value) else value


class Fake:
    """A worker: the thread that runs tasks, and the one that answers meanwhile."""

    def __init__(self, driver: Any, worker: WorkerRecord) -> None:
        self.driver = driver
        self.worker = worker
        self.batches: deque[Any] = deque()  # messages on their way to it
        self.requests: deque[Any] = deque()
        self.answers: deque[Any] = deque()  # messages of it that were not read yet
        self.told: deque[Any] = deque()
        self.values: dict[int, Any] = {}
        self.kept: set[int] = set()
        self.claims: dict[int, str] = {}
        self.nodes: dict[int, Node] = {}  # the driver's: what it was sent and has not answered
        self.batch: Any = None
        self.running: Any = None  # the record that runs now
        self.given: list[Any] = []  # its inputs
        self.word = 0
        self.pickling: Node | None = None
        self.is_recalled = False

    # -- the thread that runs tasks

    def can_step(self) -> bool:
        return bool(self.batch or self.batches)

    def step(self) -> None:
        """Do the next small thing."""
        batch = self.batch
        if batch is None:
            self._take(self.batches.popleft())
        elif self.running is not None:
            self._finish()
        elif batch.todo:
            self._begin(batch.todo.popleft())
            if self.driver.dies_of(self.running.node):
                self.driver.kill(self)
        else:
            self.answer()
            self.word = 0
            self.batch = None

    def _take(self, message: Any) -> None:
        for i in message.to_drop:
            self.values.pop(i, None)
            self.kept.discard(i)
        for i, number in message.loads:
            assert self.values.get(i) in (None, number, LATER), "loaded over another value"
            self.values[i] = number
        if message.number and self.claims.setdefault(message.number, "main") == "main":
            self.batch = SimpleNamespace(
                number=message.number, todo=deque(message.records), done=[], failed=[],
                deferred=[], calls=Counter(),
            )

    def _begin(self, record: Any) -> None:
        """Look inputs up; a task that is their last user may have the only reference to them."""
        self.running = record
        self.word = record.node.id
        # KeyError: a task was sent where its inputs are not
        self.given = [self.values[i] for i in record.inputs]
        is_plain = all(isinstance(value, int) for value in self.given)
        if is_plain and self.driver.chance(0.5):
            self._drop(record)

    def _drop(self, record: Any) -> None:
        for i in record.drops:
            if i not in self.kept:
                self.values.pop(i, None)

    def _finish(self) -> None:
        record, self.running = self.running, None
        batch, node = self.batch, record.node
        batch.calls[node.function] += 1
        numbers = []
        for value in self.given:
            if value is LATER:
                batch.deferred.append(node)
                self.values[node.id] = LATER
                self.kept.update(record.inputs)
                return
            if isinstance(value, Failed):
                self._store(record, value)
                batch.failed.append((node, value.error))
                break
            numbers.append(value)
        else:
            self._call(record, numbers)
        self._drop(record)

    def _call(self, record: Any, numbers: list[int]) -> None:
        batch, node, task = self.batch, record.node, self.driver.tasks[record.node]
        assert node not in self.driver.made, f"{node} runs twice"
        if task.fate == "fails":
            error = ("fails", task.uid)
            self._store(record, Failed(error))
            batch.failed.append((node, error))
        elif task.fate == "lazy":
            self._store(record, LATER)
            batch.done.append((node, "lazy", task.result(numbers)))
        elif task.sticks and (record.want == 2 or self.driver.is_once(node)):
            error = ("sticks", task.uid)
            self._store(record, Failed(error))
            batch.failed.append((node, error))
        else:
            number = task.result(numbers)
            self._store(record, number)
            is_wanted = record.want == 2 or self.driver.is_once(node)
            if is_wanted or (record.want == 1 and task.kind == SMALL):
                batch.done.append((node, "told", number))
            else:
                batch.done.append((node,))

    def _store(self, record: Any, value: Any) -> None:
        if record.keep:
            self.values[record.node.id] = value

    def answer(self) -> None:
        """Send what the batch has done so far: by either thread."""
        batch = self.batch
        done = []
        for entry in batch.done:
            node = entry[0]
            if len(entry) == 1:
                value = self.values.get(node.id)
                kind = self.driver.tasks[node].kind
                if value is not None and kind == LARGE:
                    entry = (node, "large")
                elif value is not None:
                    entry = (node, "told", value)
            done.append(entry)
        self.answers.append((batch.number, done, batch.failed, batch.deferred, batch.calls))
        batch.done, batch.failed, batch.deferred, batch.calls = [], [], [], Counter()

    # -- the thread that answers

    def serve(self) -> None:
        """Do the next thing that was asked."""
        what, detail = self.requests[0]
        if what == "share" and self.pickling is None:
            self.pickling = detail
            return
        self.requests.popleft()
        if what == "share":
            node, self.pickling = detail, None
            number = self.values.get(node.id)
            if not isinstance(number, int):
                self.told.append(("absent", node))
            elif self.driver.tasks[node].sticks:
                self.told.append(("sticks", node))
            else:
                self.told.append(("shared", node, number))
            return
        groups: list[Any] = []
        for number in detail:
            if self.claims.setdefault(number, "recall") == "recall":
                groups.append((number, None))
            elif self.batch is not None and self.batch.number == number:
                count = self.driver.rng.randint(0, len(self.batch.todo))
                back = [self.batch.todo.pop().node for _ in range(count)]
                groups.append((number, back))
                self.answer()
        self.told.append(("recalled", groups))
