"""The exact step holds little beyond what a plain step holds, the first step included."""

import json

import pytest
import torch
from tests import networks
from torch.profiler import ProfilerActivity, profile

import fairweight as fw
from fairweight.fast.step_graph import TracedStep
from fairweight.metagradient import choose, classification_loss
from fairweight.metagradient.model import trainable
from fairweight.objectives.mean import MeanLoss

SIZE, WIDTH, PIXELS = 32, 8, 32


def setting(bf16):
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16)


def network(make=networks.short_resnet):
    torch.manual_seed(0)
    inputs = torch.randn(SIZE, 3, PIXELS, PIXELS).to(memory_format=torch.channels_last)
    model = make(10, width=WIDTH).to(memory_format=torch.channels_last)
    return model, fw.Batch(inputs, torch.arange(SIZE) % 10)


def peak(work, folder, bf16):
    """The most bytes that were allocated at one time while it ran."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen, setting(bf16):
        work()
    path = folder / "trace.json"
    seen.export_chrome_trace(str(path))
    changes = [e for e in json.loads(path.read_text())["traceEvents"] if e["name"] == "[memory]"]
    held = most = 0
    for change in sorted(changes, key=lambda e: e["ts"]):
        held += change["args"]["Bytes"]
        most = max(most, held)
    return most


@pytest.mark.parametrize("bf16", [False, True])
def test_choosing_a_mode_takes_about_as_much_memory_as_a_plain_step(bf16, tmp_path):
    """Otherwise the trial at the first step would be the peak of a compiled training: it was, at twice a plain step."""
    model, batch = network(fw.ResNet18)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    uniform = fw.Uniform(model, SIZE)
    uniform.step(batch, None, optimizer)
    optimizer.zero_grad()
    plain = peak(lambda: uniform.step(batch, None, optimizer), tmp_path, bf16)
    trial = peak(lambda: choose(model, batch, classification_loss, "forward"), tmp_path, bf16)
    assert plain > SIZE * WIDTH * PIXELS**2 * 2 * 15  # the network's activations are what is measured
    assert trial < 1.2 * plain


@pytest.mark.slow
@pytest.mark.parametrize("bf16", [False, True])
def test_the_second_graph_is_handed_no_more_than_autograd_would_save(bf16):
    model, batch = network()
    held = fw.Batch(batch.inputs[:8], batch.labels[:8])
    saved = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage  # kept, so that no address is used twice
        return tensor

    with setting(bf16), torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        classification_loss(model(batch.inputs), batch.labels).sum()
    by_autograd = sum(storage.nbytes() for storage in saved.values())
    with setting(bf16):
        rates = dict.fromkeys(trainable(model), 0.1)
        step = TracedStep(model, trainable(model), batch, held, classification_loss, MeanLoss(), list(rates))
        rest = step.solve(trainable(model), torch.zeros(SIZE), rates, batch, held).rest
    handed = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in rest}
    assert len(handed) == len(rest)  # nothing twice
    assert sum(handed.values()) < 1.02 * by_autograd


def stepping(agreement_every):
    """A traced FORML, and what takes a step of it."""
    model, batch = network()
    batch = fw.Batch(batch.inputs, batch.labels, rows=torch.arange(SIZE))
    held = fw.Batch(batch.inputs[:8], batch.labels[:8] % 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    forml = fw.FORML(model, SIZE, gradient="forward", agreement_every=agreement_every)
    forml.compile("eager")
    return forml, lambda: forml.step(batch, held, optimizer)


@pytest.mark.slow
@pytest.mark.parametrize("bf16", [False, True])
def test_a_look_at_agreement_takes_no_more_memory_than_the_step_it_belongs_to(bf16, tmp_path):
    _, step_once = stepping(agreement_every=2)
    peaks, records = [], []
    for step in range(4):
        peaks.append(peak(lambda: records.append(step_once()), tmp_path, bf16))
        assert (records[-1].agreement is not None) == (step % 2 == 0)
    assert peaks[2] < 1.02 * peaks[3]


@pytest.mark.slow
@pytest.mark.parametrize("bf16", [False, True])
def test_the_first_traced_step_which_is_compared_with_its_passes_takes_little_more_than_the_next(bf16, tmp_path):
    forml, step_once = stepping(agreement_every=0)
    first, second = (peak(step_once, tmp_path, bf16) for _ in range(2))
    assert forml._traced.refusal is None
    assert first < 1.1 * second
