import io
import json
import logging
from itertools import pairwise

import pytest
import torch

import fairweight as fw
from fairweight.errors import BadInput, LossNotFinite, MissingExemplar, UnknownName
from fairweight.sampling import Cells


def problem(n=60, seed=0, groups=False):
    torch.manual_seed(seed)
    labels = torch.arange(n) % 3
    batch = fw.Batch(torch.randn(n, 5) + 2 * labels[:, None], labels, groups=torch.arange(n) % 2 if groups else None)
    model = fw.MLP(5, 3, (8,))
    return batch, model, torch.optim.SGD(model.parameters(), 0.1)


def test_uniform_equals_a_plain_loop():
    batch, model, optimizer = problem()
    fw.fit(model, optimizer, fw.Uniform(model, 60), batch, epochs=3, batch_size=16, seed=7)
    batch, twin, optimizer = problem()
    sampler = fw.TrainSampler(60, 16, 7)
    for step in range(3 * 4):
        rows = sampler.rows(step)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(twin(batch.inputs[rows]), batch.labels[rows]).backward()
        optimizer.step()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_forml_learns_and_the_log_tells(tmp_path):
    batch, model, optimizer = problem()
    forml = fw.FORML(model, 60, agreement_every=2)
    record = fw.fit(model, optimizer, forml, batch, batch, epochs=4, batch_size=16, per_cell=4, validation=batch,
                    out=tmp_path)  # fmt: skip
    assert record.stopped == "finished"
    assert (record.epochs, record.steps) == (4, 16)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["start", *["epoch"] * 4, "end"]
    last = lines[-2]
    for key in ("loss", "mean_loss", "accuracy", "objective", "effective_size", "score_std", "score_min", "score_max",
                "agreement", "lr", "group_losses", "validation"):  # fmt: skip
        assert key in last
    assert set(last["group_losses"]) == {"0", "1", "2"}
    assert last["validation"]["accuracy"] > lines[1]["validation"]["accuracy"]
    assert last["score_std"] > 0.01
    assert record.history[-1]["loss"] < record.history[0]["loss"]


@pytest.mark.parametrize("too", [False, True])
def test_exemplars_are_augmented_where_that_is_asked_for(too):
    batch, model, optimizer = problem()
    seen = []

    class Keeping(fw.FORML):
        def step(self, batch, exemplar, optimizer, **rest):
            seen.append((batch.inputs, exemplar.inputs))
            return super().step(batch, exemplar, optimizer, **rest)

    def noisy(inputs, generator):
        return inputs + torch.randn(inputs.shape, generator=generator)

    options = fw.FitOptions(batch_size=30, per_cell=10, seed=3, augment_exemplars=too)
    fw.fit(model, optimizer, Keeping(model, 60), batch, batch, 2, augment=noisy, options=options)
    known = {tuple(row.tolist()) for row in batch.inputs}
    assert not any(tuple(row.tolist()) in known for train, _ in seen for row in train)
    assert all((tuple(row.tolist()) in known) != too for _, exemplar in seen for row in exemplar)
    draws = fw.ExemplarSampler(Cells.of(batch.labels, None), 10, 3)
    noise = [held - batch.inputs[draws.rows(step)] for step, (_, held) in enumerate(seen)]
    assert all(not torch.equal(a, b) for a, b in pairwise(noise)) == too  # drawn anew at every step


def test_an_exemplar_batch_can_have_more_than_its_cells_ask_for():
    batch, model, optimizer = problem()
    seen = []

    class Keeping(fw.FORML):
        def step(self, batch, exemplar, optimizer, **rest):
            seen.append(exemplar)
            return super().step(batch, exemplar, optimizer, **rest)

    options = fw.FitOptions(batch_size=30, per_cell=2, seed=3, exemplar_batch=30)
    fw.fit(model, optimizer, Keeping(model, 60), batch, batch, 1, options=options)
    assert [len(exemplar) for exemplar in seen] == [30, 30]
    assert all(float(exemplar.shares.mean()) == pytest.approx(1.0) for exemplar in seen)
    with pytest.raises(BadInput, match="exemplar_batch=-1"):
        fw.FitOptions(exemplar_batch=-1)


def test_epoch_numbers_are_those_of_the_records():
    batch, model, optimizer = problem(groups=True)
    seen = []

    class Keep(fw.Observer):
        def on_step(self, step, record):
            seen.append((float(record.loss), record.losses.clone(), record.weights.clone(), float(record.objective)))

    record = fw.fit(model, optimizer, fw.FORML(model, 60), batch, batch, 1, [Keep()], batch_size=25, seed=1)
    summary = record.history[0]
    assert summary["loss"] == pytest.approx(sum(s[0] for s in seen) / 3)
    assert summary["mean_loss"] == pytest.approx(float(torch.cat([s[1] for s in seen]).mean()))
    assert summary["objective"] == pytest.approx(sum(s[3] for s in seen) / 3)
    sizes = [float(1 / (len(s[2]) * s[2].square().sum())) for s in seen]
    assert summary["effective_size"] == pytest.approx(sum(sizes) / 3)
    rows = torch.cat([fw.TrainSampler(60, 25, 1).rows(k) for k in range(3)])
    losses = torch.empty(60).scatter(0, rows, torch.cat([s[1] for s in seen]))
    for group in (0, 1):
        assert summary["group_losses"][str(group)] == pytest.approx(
            float(losses[batch.groups == group].mean()), rel=1e-5
        )


def test_the_callers_random_stream_is_left_as_it_was():
    batch, model, optimizer = problem()
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), model)
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    fw.fit(model, optimizer, fw.Uniform(model, 60), batch, epochs=1)
    assert torch.equal(torch.rand(3), expected)


def test_same_seed_same_run_and_another_seed_another():
    def scores(seed):
        batch, model, optimizer = problem()
        forml = fw.FORML(model, 60)
        fw.fit(model, optimizer, forml, batch, batch, epochs=2, seed=seed, batch_size=20)
        return forml.scores

    assert torch.equal(scores(1), scores(1))
    assert not torch.equal(scores(1), scores(2))


def test_early_stopping_keeps_the_best_epoch(tmp_path):
    batch, model, optimizer = problem()
    hostile = fw.Batch(batch.inputs, (batch.labels + 1) % 3)  # its loss is best at the start, and grows
    early = fw.EarlyStopping("loss", patience=2)
    states = []

    class Keep(fw.Observer):
        def on_epoch(self, epoch, summary):
            states.append({k: v.clone() for k, v in model.state_dict().items()})

    record = fw.fit(model, optimizer, fw.Uniform(model, 60), batch, None, 30, [early, Keep()], validation=hostile)
    assert record.best_epoch == early.best_epoch
    assert record.epochs == record.best_epoch + 2 < 30
    assert "has not improved since epoch" in record.stopped
    for key, value in model.state_dict().items():
        assert torch.equal(value, states[record.best_epoch - 1][key])


def test_early_stopping_without_validation_is_a_sentence():
    batch, model, optimizer = problem()
    with pytest.raises(UnknownName, match="pass validation= to fit"):
        fw.fit(model, optimizer, fw.Uniform(model, 60), batch, None, 2, [fw.EarlyStopping()])


def test_loss_not_finite_names_step_rows_and_checkpoint(tmp_path):
    batch, model, optimizer = problem()
    inputs = batch.inputs.clone()
    inputs[17] = torch.nan
    bad = fw.Batch(inputs, batch.labels)
    step = next(k for k in range(4) if 17 in fw.TrainSampler(60, 16, 0).rows(k))
    options = fw.FitOptions(batch_size=16, checkpoint_every=0.0)
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(LossNotFinite, match=rf"Stopped at step {step} .*rows \[17\]") as caught:
        fw.fit(model, optimizer, fw.Uniform(model, 60), bad, epochs=1, out=tmp_path, options=options)
    if step:
        assert f"the last good checkpoint is {tmp_path / 'checkpoint.safetensors'} at step {step}" in str(caught.value)
        assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(bool(torch.isfinite(p).all()) for p in model.parameters())


def test_no_effect_and_collapse_are_said_in_words(caplog):
    batch, model, optimizer = problem()
    still = fw.FORML(model, 60, score_step=fw.PlainStep(1e-9))
    with caplog.at_level(logging.WARNING, "fairweight"):
        record = fw.fit(model, optimizer, still, batch, batch, epochs=1)
    assert [w.split(":")[0] for w in record.warnings] == ["no effect"]
    assert "train for more steps, or raise the score step's scale or rate" in caplog.text
    batch, model, optimizer = problem()
    wild = fw.FORML(model, 60, score_step=fw.PlainStep(1e7))
    record = fw.fit(model, optimizer, wild, batch, batch, epochs=3)
    assert "collapse" in [w.split(":")[0] for w in record.warnings]


def test_weak_signal_is_said_in_words():
    watch = fw.Watch()
    for step in range(20):
        made = fw.StepRecord(
            torch.tensor(0.0), torch.zeros(1), torch.ones(1), agreement=torch.tensor((-1) ** step * 0.1)
        )
        watch.on_step(step, made)
    watch.on_epoch(1, {})
    assert len(watch.warnings) == 1
    assert "raise per_cell" in watch.warnings[0]


def test_accumulation_equals_one_large_batch():
    batch, model, optimizer = problem()
    options = fw.FitOptions(batch_size=15, accumulate=4)
    fw.fit(model, optimizer, fw.Uniform(model, 60), batch, epochs=2, options=options)
    batch, twin, optimizer = problem()
    fw.fit(twin, optimizer, fw.Uniform(twin, 60), batch, epochs=2, batch_size=60)
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_bfloat16_and_clipping_train():
    batch, model, optimizer = problem()
    options = fw.FitOptions(autocast=torch.bfloat16, clip_norm=0.5)
    record = fw.fit(model, optimizer, fw.FORML(model, 60), batch, batch, epochs=8, options=options)
    assert record.history[-1]["loss"] < record.history[0]["loss"]


def test_methods_may_draw_their_own_rows():
    class Half(fw.Uniform):
        def sampling_weights(self):
            return (torch.arange(self.num_samples) < 30).float()

    batch, model, optimizer = problem()
    dynamics = fw.Dynamics(60)
    fw.fit(model, optimizer, Half(model, 60), batch, epochs=2, dynamics=dynamics)
    assert bool((dynamics.visits[:30] > 0).any())
    assert int(dynamics.visits[30:].sum()) == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"num_samples": 59}, "made for 59 samples and train has 60"),
        ({"epochs": 0}, "epochs=0"),
        ({"other_model": True}, "was made for another model"),
    ],
)
def test_bad_arguments_are_sentences(change, sentence):
    batch, model, optimizer = problem()
    owner = fw.MLP(5, 3, (8,)) if change.get("other_model") else model
    method = fw.Uniform(owner, change.get("num_samples", 60))
    with pytest.raises(BadInput, match=sentence):
        fw.fit(model, optimizer, method, batch, epochs=change.get("epochs", 1))


def test_forml_without_exemplars_is_a_sentence():
    batch, model, optimizer = problem()
    with pytest.raises(MissingExemplar, match="pass exemplar= to fit"):
        fw.fit(model, optimizer, fw.FORML(model, 60), batch)


def test_progress_is_plain_lines_off_a_terminal(capsys):
    batch, model, optimizer = problem()
    fw.fit(model, optimizer, fw.Uniform(model, 60), batch, None, 2, [fw.Progress("digits")], validation=batch)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("digits: epoch 1/2, loss ")
    assert "validation accuracy" in lines[1]


def test_long_epochs_say_how_long_the_rest_takes(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("fairweight.training.callbacks.time.monotonic", lambda: clock[0])
    out = io.StringIO()
    shown = fw.Progress("digits", out)
    shown.on_start(2, 100, 0)
    for step in range(200):
        clock[0] += 2.0
        shown.on_step(step, None)
        if step == 99:
            shown.on_epoch(1, {"loss": 0.5})
    lines = out.getvalue().splitlines()
    assert lines[0] == "digits: epoch 1/2, step 31/100, about 6 min left"
    assert "digits: epoch 1/2, loss 0.5000, about 3 min left" in lines
    assert lines[-1].endswith("s left")
    assert len(lines) < 10


def test_short_ones_do_not(monkeypatch):
    monkeypatch.setattr("fairweight.training.callbacks.time.monotonic", lambda: 5.0)
    out = io.StringIO()
    shown = fw.Progress("digits", out)
    shown.on_start(2, 100, 0)
    shown.on_epoch(1, {"loss": 0.5})
    assert out.getvalue() == "digits: epoch 1/2, loss 0.5000\n"


def test_data_kept_apart_from_the_model_device_streams():
    """Anything with labels, groups, len and take can be trained on."""

    class Stream:
        def __init__(self, whole):
            self.whole, self.labels, self.groups, self.taken = whole, whole.labels, whole.groups, 0

        def __len__(self):
            return len(self.whole)

        def take(self, index):
            self.taken += len(index)
            return self.whole.take(index)

    batch, model, optimizer = problem()
    stream = Stream(batch)
    fw.fit(model, optimizer, fw.Uniform(model, 60), stream, epochs=2)
    assert stream.taken == 120
