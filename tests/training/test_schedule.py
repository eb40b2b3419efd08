"""The learning rate after an epoch: schedulers that count epochs, and the one that watches validation."""

import pytest
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

import fairweight as fw
from fairweight.errors import BadInput


def problem():
    torch.manual_seed(0)
    labels = torch.arange(40) % 2
    batch = fw.Batch(torch.randn(40, 3), labels)  # nothing to learn: validation soon gets worse
    model = fw.MLP(3, 2, (16,))
    held = fw.Batch(torch.randn(12, 3), torch.arange(12) % 2)
    return batch, held, model, torch.optim.Adam(model.parameters(), 0.05)


def rates(record):
    return [epoch["lr"] for epoch in record.history]


@pytest.mark.parametrize(("mode", "number"), [("min", "loss"), ("max", "accuracy")])
def test_a_plateau_is_that_of_validation(mode, number):
    batch, held, model, optimizer = problem()
    plateau = ReduceLROnPlateau(optimizer, mode, factor=0.5, patience=0)
    record = fw.fit(model, optimizer, fw.Uniform(model, 40), batch, epochs=8, validation=held, scheduler=plateau,
                    batch_size=10)  # fmt: skip
    rate, best, wanted = 0.05, None, []
    for epoch in record.history:
        wanted.append(rate)
        value = epoch["validation"][number] * (1 if mode == "min" else -1)
        if best is None or value < best - abs(best) * 1e-4:
            best = value
        else:
            rate /= 2
    assert rates(record) == pytest.approx(wanted)
    assert wanted[-1] < 0.05


def test_a_stopped_run_goes_on_with_the_same_plateau(tmp_path):
    whole = fit_in_parts(tmp_path / "whole", [8])
    parts = fit_in_parts(tmp_path / "parts", [3, 8])
    assert rates(parts[0]) == rates(whole[0])
    assert rates(whole[0])[-1] < 0.05
    assert all(torch.equal(a, b) for a, b in zip(parts[1], whole[1], strict=True))


def fit_in_parts(out, ends):
    class Stop(fw.Observer):
        def on_epoch(self, epoch, summary):
            if epoch == end:
                raise KeyboardInterrupt

    for end in ends:
        batch, held, model, optimizer = problem()
        plateau = ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
        observers = [Stop()] if end != ends[-1] else [fw.Observer()]
        try:
            record = fw.fit(model, optimizer, fw.Uniform(model, 40), batch, None, 8, observers, validation=held,
                            scheduler=plateau, batch_size=10, out=out, resume=True)  # fmt: skip
        except KeyboardInterrupt:
            continue
    return record, [p.detach() for p in model.parameters()]


def test_without_validation_there_is_nothing_to_watch():
    batch, _, model, optimizer = problem()
    with pytest.raises(BadInput, match="pass validation="):
        fw.fit(model, optimizer, fw.Uniform(model, 40), batch, scheduler=ReduceLROnPlateau(optimizer))


def test_others_count_epochs():
    batch, _, model, optimizer = problem()
    record = fw.fit(model, optimizer, fw.Uniform(model, 40), batch, epochs=4, scheduler=StepLR(optimizer, 2, 0.1))
    assert rates(record) == pytest.approx([0.05, 0.05, 0.005, 0.005])
