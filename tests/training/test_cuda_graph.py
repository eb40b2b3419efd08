"""Whole steps as a CUDA graph give what steps one by one give."""

import copy

import pytest
import torch
from torch import nn

import fairweight as fw
from fairweight.training.callbacks import Observer
from fairweight.training.fit import fit
from fairweight.training.history import Dynamics
from fairweight.training.options import FitOptions

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    # autograd's own thread meets cuBLAS before its context is there; torch sets it and says so
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]


def convolutions():
    """With batch norm: running statistics move in a replay as they do in a step."""
    body = [nn.Unflatten(1, (1, 4, 5)), nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*body, nn.Linear(160, 5))


def train(captured, *, dropout=0.0, lrs=(0.05, 0.05), method="forml", steps=12, network="mlp", cast=False):
    from fairweight.fast.cuda_graph import CapturedStep

    torch.manual_seed(0)
    model = (fw.MLP(20, 5, (32, 32), dropout) if network == "mlp" else convolutions()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=lrs[0], momentum=0.9)
    n = 256
    inputs, labels = torch.randn(n, 20, device="cuda"), torch.arange(n, device="cuda") % 5
    exemplar = fw.Batch(torch.randn(20, 20, device="cuda"), torch.arange(20, device="cuda") % 5)
    reweighter = fw.FORML(model, n, tie="label", agreement_every=5) if method == "forml" else fw.Uniform(model, n)
    take = CapturedStep(reweighter, optimizer)
    sampler = fw.TrainSampler(n, 48, 0, device="cuda")  # the last batch of an epoch is smaller
    losses = []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = lrs[0] if step < steps // 2 else lrs[1]
        rows = sampler.rows(step)
        batch = fw.Batch(inputs[rows], labels[rows], rows=rows)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=cast):
            record = take(batch, exemplar) if captured else reweighter.step(batch, exemplar, optimizer)
        losses.append(float(record.loss))
    return model, reweighter, losses, take


@pytest.mark.parametrize("method", ["forml", "uniform"])
@pytest.mark.parametrize("lrs", [(0.05, 0.05), (0.05, 0.005)])
def test_captured_equals_eager(method, lrs):
    a, b = train(False, method=method, lrs=lrs), train(True, method=method, lrs=lrs)
    assert b[3].refusal is None
    assert b[3].captures == len(set(lrs))
    torch.testing.assert_close(torch.tensor(a[2]), torch.tensor(b[2]), rtol=1e-5, atol=1e-6)
    for p, q in zip(a[0].parameters(), b[0].parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
    if method == "forml":
        torch.testing.assert_close(a[1].scores, b[1].scores, rtol=1e-4, atol=1e-5)
        assert a[1].steps == b[1].steps


@pytest.mark.parametrize("method", ["forml", "uniform"])
@pytest.mark.parametrize("cast", [False, True])
def test_batch_norm_and_autocast_are_replayed_as_they_run(method, cast):
    a, b = (train(way, method=method, network="convolutions", cast=cast, steps=30) for way in (False, True))
    assert b[3].refusal is None
    close = {"rtol": 3e-2, "atol": 3e-2} if cast else {"rtol": 1e-4, "atol": 1e-5}  # bfloat16 has 8 bits
    torch.testing.assert_close(torch.tensor(a[2]), torch.tensor(b[2]), **close)
    for (name, x), y in zip(a[0].state_dict().items(), b[0].state_dict().values(), strict=True):
        torch.testing.assert_close(x, y, **close, msg=name)


@pytest.mark.parametrize("options", [{}, {"tie": "label"}, {"scope": "head"}], ids=str)
def test_traced_steps_are_captured_anew_where_the_learning_rate_falls(options):
    from fairweight.fast.cuda_graph import CapturedStep

    torch.manual_seed(0)
    n, ends = 96, []
    inputs, labels = torch.randn(n, 20, device="cuda"), torch.arange(n, device="cuda") % 5
    exemplar = fw.Batch(torch.randn(20, 20, device="cuda"), torch.arange(20, device="cuda") % 5)
    start = convolutions().cuda()
    for captured in (False, True):
        model = copy.deepcopy(start)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        forml = fw.FORML(model, n, agreement_every=0, **options)
        forml.compile("eager")
        take = CapturedStep(forml, optimizer)
        for step in range(18):
            optimizer.param_groups[0]["lr"] = 0.05 / (1 + step // 6)
            rows = torch.arange(48, device="cuda") + 48 * (step % 2)
            batch = fw.Batch(inputs[rows], labels[rows], rows=rows)
            _ = take(batch, exemplar) if captured else forml.step(batch, exemplar, optimizer)
        ends.append((forml.scores, torch.cat([p.detach().flatten() for p in model.parameters()])))
    assert (take.failure, take.refusals, take.captures) == (None, {}, 3)
    for one_by_one, replayed in zip(*ends, strict=True):
        torch.testing.assert_close(one_by_one, replayed, rtol=1e-4, atol=1e-5)


def test_dropout_is_not_captured():
    assert "random numbers" in train(True, dropout=0.3)[3].refusal


class Reading(nn.Linear):
    """Reads a number back in its forward pass, which cannot be captured."""

    def forward(self, inputs):
        return super().forward(inputs) * (1.0 + 0.0 * float(inputs.detach().mean()))


def test_a_capture_that_fails_is_said_and_the_run_goes_on():
    model = Reading(20, 5).cuda()
    train = fw.Batch(torch.randn(64, 20, device="cuda"), torch.arange(64, device="cuda") % 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    found = fit(model, optimizer, fw.Uniform(model, 64), train, None, 2, options=FitOptions(batch_size=8))
    assert found.stopped == "finished"
    assert [w.split(":")[0] for w in found.warnings] == ["slow steps"]


def test_a_capture_that_fails_leaves_the_device_as_it_was():
    from fairweight.fast.cuda_graph import CapturedStep

    stream = torch.cuda.current_stream()
    batch = fw.Batch(torch.randn(8, 20, device="cuda"), torch.arange(8, device="cuda") % 5)
    drawn = []
    for kind in (nn.Linear, Reading, nn.Linear):
        torch.manual_seed(3)
        model = kind(20, 5).cuda()
        take = CapturedStep(fw.Uniform(model, 8), torch.optim.SGD(model.parameters(), lr=0.05))
        for _ in range(6):
            take(batch, None)
        assert (take.failure is not None, take.captures) == ((True, 0) if kind is Reading else (False, 1))
        assert torch.cuda.current_stream() == stream
        drawn.append(torch.randn(4, device="cuda"))
    assert torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], drawn[2])


class NoWaiting(Observer):
    """Refuses whatever waits for the device, from the tenth step of an epoch to the last but one."""

    def __init__(self, per_epoch):
        self.per_epoch, self.watched = per_epoch, 0

    def on_step(self, step, record):
        place = step % self.per_epoch
        watch = 10 <= place < self.per_epoch - 2 and step > self.per_epoch
        torch.cuda.set_sync_debug_mode("error" if watch else "default")
        self.watched += watch


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("method", ["forml", "uniform"])
def test_a_run_never_waits_for_the_device(method):
    from fairweight.data.augment import Chain, Flip, Shift

    torch.manual_seed(0)
    n, size = 2048, 16
    images = torch.randint(0, 256, (n, 3, 8, 8), dtype=torch.uint8, device="cuda")
    train = fw.Batch(images, torch.arange(n, device="cuda") % 5)
    exemplar = train.take(torch.arange(200, device="cuda"))
    model = nn.Sequential(Float(), nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5))
    model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    reweighter = fw.FORML(model, n, agreement_every=7) if method == "forml" else fw.Uniform(model, n)
    watch = NoWaiting(n // size)
    options = FitOptions(batch_size=size, per_cell=3)
    try:
        fit(
            model,
            optimizer,
            reweighter,
            train,
            exemplar,
            3,
            [watch],
            augment=Chain(Flip(), Shift(2)),
            dynamics=Dynamics(n, "cuda"),
            options=options,
        )
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert watch.watched > n // size


class Float(nn.Module):
    def forward(self, images):
        return images.float() / 255
