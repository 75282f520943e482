"""Searches in folders: killed at any time, they go on with what is missing."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import until

from lazyflow import tune

PROGRAM = """
import os, sys, time
from pathlib import Path
from lazyflow import tune

FOLDER = Path(sys.argv[1])

def train(config):
    began = tune.load_state(0)
    with open(FOLDER / "began.txt", "a") as file:
        file.write(f"{tune.trial_number()} {began}\\n")
    for step in range(began + 1, 6):
        if tune.trial_number() == 4 and step == 4 and not (FOLDER / "go on").exists():
            (FOLDER / "waits").touch()
            time.sleep(1000)
        tune.report(loss=config["x"] / step, state=step)

SPACE = {"x": tune.uniform(0, 1), "kind": tune.choice([None, (1, 2)])}

if __name__ == "__main__":
    on = dict(scheduler=sys.argv[2], verbose=0)
    if sys.argv[3] == "run":
        result = tune.run(train, SPACE, metric="loss", num_samples=8, max_concurrent=1, seed=2,
                          storage=FOLDER, name="it", **on)
    else:
        result = tune.resume(FOLDER / "it", train, **on)
    print([trial.config for trial in result.trials])
    print([len(trial.history) for trial in result.trials], result.best.number)
"""


@pytest.mark.timeout(100)
@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_a_search_that_was_killed_goes_on(tmp_path, scheduler):
    (tmp_path / "program.py").write_text(PROGRAM)

    def program(what):
        return subprocess.Popen(
            [sys.executable, "program.py", str(tmp_path), scheduler, what], cwd=tmp_path,
            stdout=subprocess.PIPE, text=True, start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )

    first = program("run")
    assert until(lambda: (tmp_path / "waits").exists())
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert (tmp_path / "began.txt").read_text().split("\n")[:-1] == [f"{n} 0" for n in range(5)]
    (tmp_path / "go on").touch()
    second = program("resume")
    said = second.communicate(timeout=80)[0].splitlines()
    assert second.returncode == 0
    began = (tmp_path / "began.txt").read_text().split("\n")[5:-1]
    assert sorted(began) == ["4 3", "5 0", "6 0", "7 0"]
    assert said[1].startswith("[5, 5, 5, 5, 5, 5, 5, 5]")
    expected = tune.run(lambda c: c["x"], {"x": tune.uniform(0, 1), "kind": tune.choice(
        [None, (1, 2)])}, metric="loss", num_samples=8, seed=2, scheduler="sync", verbose=0)
    assert said[0] == repr([trial.config for trial in expected.trials])


def test_states_that_moved_are_in_the_folder(tmp_path):
    """A population that is resumed goes on from the states that its trials were given."""
    def climb(config):
        height = tune.load_state(0.0)
        while True:
            height += config["rate"]
            tune.report(height=height, state=height)

    class Interrupts(tune.Callback):
        def on_trial_start(self, trial):
            if trial.number == 3 and len(trial.history) == 1:
                raise KeyboardInterrupt

    on = {"scheduler": "sync", "verbose": 0}
    result = tune.run(
        climb, {"rate": tune.grid_search([4.0, 3.0, 2.0, 0.5])}, metric="height", mode="max",
        num_samples=1, pruner=tune.PBT(interval=1), stop={"step": 4}, storage=tmp_path, name="it",
        seed=0, callbacks=[Interrupts()], **on,
    )
    state = result.trials[3].state
    assert result.was_interrupted and state == 4.0  # of the best one; its own was 0.5
    again = tune.resume(tmp_path / "it", climb, **on)
    assert again.trials[3].history[1]["height"] == state + 0.5


def train(config):
    for step in (1, 2):
        tune.report(loss=config["x"] + step, state={"step": step}, name="é")


def run(tmp_path, **options):
    options = {"metric": "loss", "num_samples": 3, "seed": 1, "verbose": 0, "storage": tmp_path,
               "name": "it", "scheduler": "sync", "space": {"x": tune.uniform(0, 1)}} | options
    return tune.run(options.pop("fn", train), options.pop("space"), **options)


def test_what_is_in_the_folder(tmp_path):
    result = run(tmp_path)
    assert sorted(p.name for p in (tmp_path / "it").iterdir()) == [
        "experiment.json", "experiment.pkl", "trial_00000", "trial_00001", "trial_00002",
    ]
    assert json.loads((tmp_path / "it/experiment.json").read_text())["metric"] == "'loss'"
    folder = tmp_path / "it/trial_00001"
    assert sorted(p.name for p in folder.iterdir()) == [
        "checkpoint_000002.pkl", "params.json", "result.jsonl",
    ]
    told = json.loads((folder / "params.json").read_text())
    assert told["config"] == result.trials[1].config and told["status"] == "completed"
    lines = (folder / "result.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == result.trials[1].history


def test_a_search_that_is_over_runs_nothing_again(tmp_path):
    result = run(tmp_path, fn=lambda c: 1 / 0 if c["x"] > 0.9 else c["x"], num_samples=20)
    assert result.errors
    again = tune.resume(tmp_path / "it", None, scheduler="threads", verbose=0)
    for one, other in zip(result.trials, again.trials, strict=True):
        assert (one.config, one.status, one.history) == (other.config, other.status, other.history)
    assert str(again.errors[min(again.errors)]) == "ZeroDivisionError: division by zero"
    assert again.best.number == result.best.number


def test_a_cut_line_and_a_cut_folder_are_what_was_before(tmp_path):
    pruner = tune.MedianStopping(grace_period=9)
    result = run(tmp_path, scheduler="threads", sampler="tpe", pruner=pruner)
    folder = tmp_path / "it"
    with open(folder / "trial_00002/result.jsonl", "a") as file:
        file.write('{"loss": 0.')
    params = folder / "trial_00002/params.json"
    params.write_text(params.read_text().replace('"completed"', '"running"'))
    params.with_name("params.json.part").write_text("{")
    (folder / "trial_00001/params.json").unlink()
    again = tune.resume(folder, train, scheduler="sync", verbose=0)
    assert [trial.number for trial in again.trials] == [0, 1, 2]
    assert [len(trial.history) for trial in again.trials] == [2, 2, 4]
    assert again.trials[2].config == result.trials[2].config


def test_nothing_is_written_without_storage(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(None, name=None)
    assert list(tmp_path.iterdir()) == []
    run(Path("here"), name=None)
    (found,) = Path("here").iterdir()
    assert found.name.startswith("train_2")


def test_words_of_errors(tmp_path):
    run(tmp_path)
    with pytest.raises(FileExistsError, match=r"there is a search in .*it already. Go on with it"):
        run(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no search in .*that: tune.resume takes"):
        tune.resume(tmp_path / "that", train)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_as_many_checkpoints_stay_as_are_asked_for(tmp_path, count):
    tune.run(
        train, {"x": tune.grid_search([1.0, 2.0])}, metric="loss", storage=tmp_path, name="it",
        scheduler="sync", verbose=0, keep_checkpoints=count,
    )
    for trial in (tmp_path / "it").glob("trial_*"):
        steps = len((trial / "result.jsonl").read_text().splitlines())
        names = sorted(each.name for each in trial.glob("checkpoint_*"))
        first = max(1, steps + 1 - count)
        assert names == [f"checkpoint_{k:06d}.pkl" for k in range(first, steps + 1)]


def test_how_many_checkpoints_may_be_asked_for():
    with pytest.raises(ValueError, match="keep_checkpoints must be a whole number, 1 or more"):
        tune.run(train, {"x": 1.0}, metric="loss", keep_checkpoints=0, verbose=0)
