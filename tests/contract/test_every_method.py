"""What every method in the folder keeps to, found by the catalog: a new file is tested by being there."""

from __future__ import annotations

import copy
import inspect

import pytest
import torch
from torch import nn

from fairweight import catalog
from fairweight.errors import BadInput, MissingExemplar, MissingGroups
from fairweight.objectives.max_discrepancy import MaxLossDiscrepancy
from fairweight.training import state as files
from fairweight.training.fit import fit
from fairweight.training.predict import predict
from fairweight.types import Batch

NAMES = catalog.names("methods")
N, CLASSES, WIDTH = 36, 3, 5
# Options beside the defaults that take another path through a method.
VARIANTS = [
    ("random", {"kind": "redrawn"}),
    ("random", {"kind": "uniform", "through": "sampling"}),
    ("proportion", {"by": "cell"}),
    ("proportion", {"by": "label", "through": "sampling"}),
    ("class-balanced", {"beta": 0.9, "by": "group"}),
    ("class-difficulty", {"measured_on": "train", "tau": 1.5}),
    ("label-bias", {"constraint": "equal-opportunity", "rate": 0.3}),
    ("label-bias", {"constraint": "equal-odds"}),
    ("label-bias", {"constraint": "equal-recall", "measured_on": "exemplar"}),
    ("label-bias", {"multipliers": [[0.1], [0.2], [-0.9]], "online": False, "constraint": "rate", "target": {2: 0.1}}),
    ("label-bias", {"constraint": "demographic-parity", "positive": 2, "measured_on": "exemplar"}),
    ("label-bias", {"constraint": "rate", "target": {2: 0.1}, "through": "sampling"}),
    ("moew", {"alpha": [0.4, -0.8, 0.1]}),
    ("moew", {"alpha": [0.4, -0.8], "embedding": "autoencoder", "dimension": 2, "embedding_steps": 5}),
    ("given", {"weights": [0.5, 1.0, 1.5] * (N // 3)}),
    ("given", {"weights": [0.5, 1.0, 0.0] * (N // 3), "through": "sampling"}),
    ("group-dro", {"by": "group", "normalised": False, "adjustment": 1.0, "draws": "balanced"}),
    ("jtt", {"through": "sampling"}),
    ("jtt", {"errors": [0, 5, 7], "upweight": 3.0}),
    ("focal", {"normalised": True, "gamma": 0.5}),
    ("l2rw", {"gradient": "forward", "objective": MaxLossDiscrepancy()}),
    ("meta-weight-net", {"normalised": False, "detached": False, "net_optimizer": "sgd", "gradient": "forward"}),
    ("forml", {"gradient": "forward", "tie": "label"}),
]
CASES = [pytest.param(name, {}, id=name) for name in NAMES] + [
    pytest.param(name, options, id=f"{name}-{'-'.join(map(str, options))}-{k}")
    for k, (name, options) in enumerate(VARIANTS)
]


def network(dtype=torch.float32) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, CLASSES)).to(dtype)


def whole_set(size: int = N, seed: int = 1, dtype=torch.float32, groups: bool = True) -> Batch:
    g = torch.Generator().manual_seed(seed)
    labels = torch.arange(size) % CLASSES
    inputs = torch.randn(size, WIDTH, generator=g).to(dtype)
    inputs[torch.arange(size), labels] += 0.5
    return Batch(inputs, labels, torch.arange(size) // 2 % 2 if groups else None)


def batch_of(train: Batch, step: int, size: int = 12) -> Batch:
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(100 + step // 3))
    return train.take(order[step % 3 * size : (step % 3 + 1) * size])


class Run:
    """A model, its optimizer and a method, in a loop of one's own."""

    def __init__(self, name, options, *, dtype=torch.float32, groups=True, exemplar=True, begin=True) -> None:
        self.model = network(dtype)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        options = dict(options)
        backend = options.pop("compile", None)
        self.method = catalog.load("methods", name)(self.model, N, **options)
        if backend is not None:
            self.method.compile(backend)
        self.train = whole_set(dtype=dtype, groups=groups)
        self.exemplar = whole_set(18, seed=2, dtype=dtype) if exemplar else None
        if begin:
            self.method.begin(self.train, self.exemplar)
        self.done = 0

    def step(self, change=lambda batch: batch, change_exemplar=lambda batch: batch):
        batch = change(batch_of(self.train, self.done))
        exemplar = None if self.exemplar is None else change_exemplar(self.exemplar)
        record = self.method.step(batch, exemplar, self.optimizer)
        self.done += 1
        if self.done % 3 == 0:
            self.method.on_epoch(self.done // 3, lambda samples: predict(self.model, samples))
        return record

    def parameters(self) -> torch.Tensor:
        return torch.cat([p.detach().flatten() for p in self.model.parameters()])

    def everything(self) -> list[torch.Tensor]:
        return [t.detach().clone() for t in self.model.state_dict().values()]


def tensors(tree) -> list[torch.Tensor]:
    found, _ = files.flatten(tree)
    return [found[key] for key in sorted(found)]


def same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return len(left) == len(right) and all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_a_sentence_and_a_paper(name):
    kind = catalog.load("methods", name)
    doc = inspect.cleandoc(kind.__doc__ or "")
    assert doc.split("\n")[0].endswith("."), "the first line is one sentence: it is what `list methods` prints"
    assert kind.paper
    assert kind.needs <= {"train groups", "exemplar", "exemplar set", "weights"}
    first, second, *rest = inspect.signature(kind).parameters.values()
    assert (first.name, second.name) == ("model", "num_samples")
    assert all(p.default is not inspect.Parameter.empty for p in rest), "a method works with its defaults"


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_are_shares(name, options, dtype):
    run = Run(name, options, dtype=dtype)
    for _ in range(7):
        record = run.step()
        assert record.weights.shape == (12,)
        assert record.weights.dtype == record.losses.dtype == dtype
        assert record.weights.device == record.losses.device
        assert not record.weights.requires_grad
        assert bool(torch.isfinite(record.weights).all())
        assert bool((record.weights >= 0).all())
        assert float(record.weights.sum()) == pytest.approx(1.0, abs=1e-6) or not bool(record.weights.any())
        assert bool(torch.isfinite(record.loss))


@pytest.mark.parametrize(("name", "options"), CASES)
def test_weights_of_the_whole_set(name, options):
    run = Run(name, options)
    for _ in range(3):
        run.step()
    weights = run.method.weights()
    if weights is not None:
        assert weights.shape == (N,)
        assert bool((weights >= 0).all())
        assert float(weights.mean()) == pytest.approx(1.0, abs=1e-5)
    draws = run.method.sampling_weights()
    asks_for_draws = options.get("through") == "sampling" or options.get("draws") == "balanced"
    assert (draws is not None) == asks_for_draws
    if draws is not None:
        assert draws.shape == (N,)
        assert bool((draws >= 0).all())
        assert bool(torch.isfinite(draws).all())
        assert float(draws.sum()) > 0


@pytest.mark.parametrize(("name", "options"), CASES)
def test_order_in_the_batch_does_not_count(name, options):
    one, other, third = (Run(name, options, dtype=torch.float64) for _ in range(3))
    g = torch.Generator().manual_seed(7)
    for _ in range(6):
        order, order_of_exemplars = torch.randperm(12, generator=g), torch.randperm(18, generator=g)
        plain = one.step()
        moved = other.step(lambda b, order=order: b.take(order))
        kept = third.step(change_exemplar=lambda b, order=order_of_exemplars: b.take(order))
        torch.testing.assert_close(moved.weights, plain.weights[order], rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(kept.weights, plain.weights, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(other.parameters(), one.parameters(), rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(third.parameters(), one.parameters(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("order", ["begin, load", "load, begin", "load"])
def test_state_goes_to_a_file_and_back_bit_for_bit(name, options, order, tmp_path):
    run = Run(name, options)
    for _ in range(4):  # one epoch and a step
        run.step()
    files.save({"method": run.method.state_dict(), "optimizer": run.optimizer.state_dict()}, tmp_path / "kept")
    model = copy.deepcopy(run.model)
    kept = run.method.state_dict()
    frozen = [t.clone() for t in tensors(kept)]

    saved = files.load(tmp_path / "kept")
    again = Run(name, options, begin=False)
    again.model.load_state_dict(model.state_dict())
    again.optimizer.load_state_dict(saved["optimizer"])
    again.done = 4
    for what in order.split(", "):
        if what == "load":
            again.method.load_state_dict(saved["method"])
        else:
            again.method.begin(again.train, again.exemplar)
    rounds = 2 if order == "load" else 5  # an epoch's end needs the sets that begin gives
    for _ in range(rounds):
        a, b = run.step(), again.step()
        assert torch.equal(a.weights, b.weights)
        assert torch.equal(a.loss, b.loss)
        if order == "load" and again.done % 3 == 2:
            break
    assert same(run.everything(), again.everything())
    assert same(tensors(run.method.state_dict()), tensors(again.method.state_dict()))
    assert same(tensors(kept), frozen), "a state that was taken changes no more"


@pytest.mark.parametrize(("name", "options"), CASES)
def test_what_is_given_is_left_alone(name, options):
    run = Run(name, options)
    given = [run.train.inputs, run.train.labels, run.train.groups]
    given += [run.exemplar.inputs, run.exemplar.labels, run.exemplar.groups]
    before, random = [t.clone() for t in given], torch.get_rng_state()
    for _ in range(3):
        batch = batch_of(run.train, run.done)
        parts = [batch.inputs, batch.labels, batch.groups, batch.rows]
        copies, parameters = [t.clone() for t in parts], run.parameters()
        run.method.backward(batch, run.exemplar, run.optimizer)
        assert torch.equal(run.parameters(), parameters), "only the optimizer moves the model"
        assert same(parts, copies)
        run.optimizer.step()
        run.optimizer.zero_grad()
        run.done += 1
    everything = run.everything()
    run.method.begin(run.train, run.exemplar)
    run.method.on_epoch(1, lambda samples: predict(run.model, samples))
    run.method.sampling_weights()
    assert same(run.everything(), everything)
    assert same(given, before)
    assert torch.equal(torch.get_rng_state(), random), "the caller's random stream"


@pytest.mark.parametrize(("name", "options"), CASES)
def test_running_statistics_move_as_in_plain_training(name, options):
    run, plain = Run(name, options), network()
    batch = batch_of(run.train, 0)
    plain(batch.inputs)
    run.step()
    assert torch.equal(run.model[1].running_mean, plain[1].running_mean)
    assert torch.equal(run.model[1].running_var, plain[1].running_var)
    assert int(run.model[1].num_batches_tracked) == 1


@pytest.mark.parametrize(("name", "options"), CASES)
def test_the_same_seed_gives_the_same_run(name, options):
    one, other = Run(name, options), Run(name, options)
    for _ in range(6):
        assert torch.equal(one.step().weights, other.step().weights)
    assert same(one.everything(), other.everything())


@pytest.mark.parametrize(("name", "options"), CASES)
def test_what_it_needs_is_asked_for_in_one_sentence(name, options):
    needs = Run(name, options, begin=False).method.needs
    if "train groups" in needs:
        with pytest.raises(MissingGroups, match=r"[.]$"):
            Run(name, options, groups=False, begin=False).step()
    else:
        Run(name, options, groups=False).step()
    if "exemplar" in needs:
        with pytest.raises(MissingExemplar, match=r"[.]$"):
            Run(name, options, exemplar=False, begin=False).step()
    elif "exemplar set" in needs:
        with pytest.raises(MissingExemplar, match=r"[.]$"):
            Run(name, options, exemplar=False)
    else:
        Run(name, options, exemplar=False).step()


@pytest.mark.parametrize("name", ["forml", "meta-weight-net", "l2rw"])
def test_groups_on_the_exemplar_set_alone(name):
    kind = catalog.load("methods", name)
    assert kind.needs == {"exemplar"}
    options = {"objective": MaxLossDiscrepancy()}
    with_groups, without = Run(name, options), Run(name, options, groups=False)
    for _ in range(4):
        assert torch.equal(with_groups.step().weights, without.step().weights)


def test_which_methods_read_groups_of_training_samples():
    asking = {name for name in NAMES if "train groups" in catalog.load("methods", name).needs}
    assert asking == {"proportion", "group-dro", "reweighing"}


@pytest.mark.parametrize("name", NAMES)
def test_steps_need_no_begin(name):
    run = Run(name, {}, begin=False)
    weights = run.step().weights
    assert float(weights.sum()) == pytest.approx(1.0, abs=1e-6) or not bool(weights.any())


@pytest.mark.parametrize(("name", "options"), CASES)
def test_in_fit(name, options):
    model = network()
    method = catalog.load("methods", name)(model, N, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    record = fit(model, optimizer, method, whole_set(), whole_set(18, seed=2), epochs=2, batch_size=8, per_cell=2)
    assert (record.epochs, record.stopped) == (2, "finished")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize(("name", "options"), CASES)
def test_on_a_gpu_as_on_the_cpu(name, options):
    here, there = Run(name, options, dtype=torch.float64), Run(name, options, dtype=torch.float64, begin=False)
    there.model.cuda()
    there.optimizer = torch.optim.SGD(there.model.parameters(), lr=0.1, momentum=0.9)
    there.method = catalog.load("methods", name)(there.model, N, **options)
    there.train, there.exemplar = there.train.to("cuda"), there.exemplar.to("cuda")
    there.method.begin(there.train, there.exemplar)
    for _ in range(4):
        a, b = here.step(), there.step(lambda batch: batch.to("cuda"))
        assert b.weights.device.type == "cuda"
        torch.testing.assert_close(a.weights, b.weights.cpu(), rtol=1e-6, atol=1e-9)


def refuses_sample_weights(name, options) -> bool:
    """Methods whose loss is not the weighted sum of the samples' losses."""
    return name == "focal" or (name == "meta-weight-net" and not options.get("normalised", True))


@pytest.mark.parametrize(("name", "options"), CASES)
def test_sample_weights_multiply_the_methods_own(name, options):
    plain, ones, heavy = (Run(name, options, dtype=torch.float64) for _ in range(3))
    ones.method.sample_weight = torch.ones(N)
    heavy.method.sample_weight = torch.arange(N) / torch.arange(N, dtype=torch.float64).mean()
    if refuses_sample_weights(name, options):
        with pytest.raises(BadInput, match="sample_weight"):
            heavy.step()
        return
    first = heavy.step()
    for k in range(7):
        left, right = plain.step(), ones.step()
        torch.testing.assert_close(left.weights, right.weights)
        if k == 0:
            rows = batch_of(heavy.train, 0).rows
            torch.testing.assert_close(first.weights, left.weights * heavy.method.sample_weight[rows])
            torch.testing.assert_close(first.loss, (first.weights * first.losses).sum())
    assert ones.method.steps == plain.method.steps == 7
    torch.testing.assert_close(ones.parameters(), plain.parameters())
    if plain.method.scores is not None:
        torch.testing.assert_close(ones.method.scores, plain.method.scores)
