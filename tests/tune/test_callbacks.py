"""What is written for TensorBoard."""

import pytest

from lazyflow import tune

pytest.importorskip("tensorboard")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_reads_what_trials_reported(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def train(config):
        for step in range(3):
            tune.report(loss=config["rate"] / (step + 1), words="not a number")

    result = tune.run(
        train, {"rate": tune.uniform(1, 2), "kind": tune.choice(["a", (1, 2)])}, metric="loss",
        num_samples=3, scheduler="threads", seed=1, verbose=0,
        callbacks=[tune.TensorBoardCallback(tmp_path)],
    )
    for trial in result.trials:
        found = EventAccumulator(str(tmp_path / f"trial_{trial.number:05d}")).Reload()
        assert found.Tags()["scalars"] == ["loss"]
        events = found.Scalars("loss")
        assert [event.step for event in events] == [1, 2, 3]
        expected = [each["loss"] for each in trial.history]
        assert [event.value for event in events] == pytest.approx(expected)
        assert "_hparams_/session_start_info" in found.PluginTagToContent("hparams")
