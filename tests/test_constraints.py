"""Nonsense in the Python API: one sentence before anything is trained."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
import torch
from torch import nn

import fairweight as fw
from fairweight import catalog
from fairweight.constraints import above, between, check, constrained, either, one_of, whole
from fairweight.errors import BadInput, FairweightError, LossNotFinite, ScoresMismatch, UnknownName
from fairweight.sampling import Cells, ExemplarSampler, TrainSampler
from fairweight.training.callbacks import EarlyStopping

NAN, INF = math.nan, math.inf
NET = nn.Linear(3, 2)
LABELS = torch.tensor([0, 1] * 10)
BATCH = fw.Batch(torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), LABELS, rows=torch.arange(20))


def fitted(**given):
    net = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=given.pop("lr", 0.1))
    options = {"epochs": 1, "batch_size": 10, "per_cell": 2, **given}
    return fw.fit(net, optimizer, fw.FORML(net, 20), BATCH, BATCH, **options)


def estimator(**given):
    x = np.random.default_rng(0).normal(size=(60, 3))
    return fw.FairweightClassifier(**{"epochs": 1, **given}).fit(x, np.arange(60) % 2)


def loaded(key: str, value: float):
    forml = fw.FORML(nn.Linear(3, 2), 4)
    state = forml.state_dict()
    state[key][0] = value
    forml.load_state_dict(state)


NONSENSE = [
    *(lambda v=v: fw.FitOptions(clip_norm=v) for v in (-1, 0, NAN, INF, "1", True)),
    *(lambda v=v: fw.FitOptions(batch_size=v) for v in (0, -1, 1.5, NAN, None, "8", True)),
    *(lambda v=v: fw.FitOptions(accumulate=v) for v in (0, NAN)),
    *(lambda v=v: fw.FitOptions(per_cell=v) for v in (0, -3)),
    *(lambda v=v: fw.FitOptions(exemplar_batch=v) for v in (-1, NAN)),
    *(lambda v=v: fw.FitOptions(checkpoint_every=v) for v in (-1, NAN)),
    *(lambda v=v: fw.FitOptions(seed=v) for v in (NAN, 1.5, 2**70, "0")),
    *(lambda v=v: fw.FitOptions(autocast=v) for v in ("bfloat16", 16)),
    *(lambda v=v: fw.FitOptions(drop_last=v) for v in ("yes", NAN)),
    *(lambda v=v: fitted(epochs=v) for v in (0, -1, NAN, INF, 1.5, "3", None)),
    *(lambda v=v: fitted(batch_size=v) for v in (0, NAN)),
    *(lambda v=v: fitted(per_cell=v) for v in (0, NAN)),
    *(lambda v=v: fitted(seed=v) for v in (NAN, 2**70)),
    *(lambda v=v: fw.LookAhead(lr=v) for v in (0, -1, NAN, INF, "x")),
    *(lambda v=v: fw.LookAhead(statistics=v) for v in ("none", None)),
    *(lambda v=v: fw.LookAhead(reverse=v) for v in ("yes", 2)),
    *(lambda v=v: fw.PlainStep(v) for v in (-1, NAN, INF, "x", None)),
    *(lambda v=v: fw.AdaptiveStep(rate=v) for v in (0, -1, NAN, INF)),
    *(lambda v=v: fw.AdaptiveStep(memory=v) for v in (1, -0.1, NAN)),
    *(lambda v=v: fw.AdaptiveStep(fall=v) for v in (0, INF)),
    *(lambda v=v: fw.FORML(NET, v) for v in (0, -1, NAN, 1.5, "x")),
    *(lambda v=v: fw.FORML(NET, 4, every=v) for v in (0, NAN)),
    *(lambda v=v: fw.FORML(NET, 4, agreement_every=v) for v in (-1, NAN)),
    *(lambda v=v: fw.FORML(NET, 4, score_step=v) for v in (0.1, "adaptive")),
    *(lambda v=v: fw.FORML(NET, 4, look_ahead=v) for v in (0.1, "none")),
    *(lambda v=v: fw.FORML(NET, 4, tie=v) for v in ("sex", 1)),
    *(lambda v=v: loaded("own", v) for v in (NAN, INF)),
    *(lambda v=v: TrainSampler(10, v) for v in (0, NAN, 1.5)),
    *(lambda v=v: ExemplarSampler(Cells.of(LABELS), v) for v in (0, NAN)),
    *(lambda v=v: EarlyStopping(patience=v) for v in (0, -1, NAN)),
    *(lambda v=v: estimator(**v) for v in (
        {"lr": -1}, {"lr": NAN}, {"lr": 0}, {"epochs": NAN}, {"epochs": 1.5}, {"weight_decay": -1}, {"batch_size": 0},
        {"patience": -1}, {"validation_fraction": 1.0}, {"validation_fraction": NAN}, {"per_cell": 0},
        {"exemplar_size": 0}, {"standardize": "yes"})),
    *(lambda v=v: fw.group_table(v, [0, 1, 1]) for v in ([-1, 0, 1], [-2, 0, 1], torch.tensor([-1, 0, 2]))),
    lambda: fw.group_table([0, 1, 1], [-1, 0, 1]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(NONSENSE)))
def test_nonsense_is_refused_in_one_sentence(number):
    with pytest.raises(FairweightError) as caught:
        NONSENSE[number]()
    assert isinstance(caught.value, BadInput)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_usual_values_of_other_libraries_are_taken():
    fw.FitOptions(batch_size=np.int64(8), clip_norm=np.float32(1), checkpoint_every=0)
    fw.LookAhead(lr=torch.tensor(0.1))
    fw.PlainStep(0)
    assert fw.group_table([-1, 1, 1], [-1, 1, -1]).n == 3


def test_scores_that_are_no_numbers_leave_what_was_learned():
    forml = fw.FORML(nn.Linear(3, 2), 4)
    before = forml.scores
    state = forml.state_dict()
    state["own"][2] = NAN
    with pytest.raises(ScoresMismatch, match="not all finite"):
        forml.load_state_dict(state)
    assert torch.equal(forml.scores, before)


class _LastStep(torch.optim.SGD):
    """Makes the model NaN in its last update."""

    def step(self, closure=None):
        super().step(closure)
        self.count = getattr(self, "count", 0) + 1
        if self.count == 4:
            with torch.no_grad():
                self.param_groups[0]["params"][0].fill_(NAN)


def test_a_nan_in_the_very_last_step_is_no_finished_run(tmp_path):
    net = nn.Linear(3, 2)
    optimizer = _LastStep(net.parameters(), lr=0.1)
    with pytest.raises(LossNotFinite, match=r"step 3.*not finite after this step's update"):
        fw.fit(net, optimizer, fw.FORML(net, 20), BATCH, BATCH, 2, batch_size=10, per_cell=2, out=tmp_path)
    assert '"finished"' not in (tmp_path / "log.jsonl").read_text()


@pytest.mark.parametrize("name", catalog.names("methods"))
def test_every_number_that_a_method_takes_has_a_constraint(name):
    method = catalog.load("methods", name)
    declared = method._constraints
    numbers = [
        entry.name
        for entry in inspect.signature(method).parameters.values()
        if str(entry.annotation) in ("int", "float", "int | None", "float | None")
    ]
    assert [entry for entry in numbers if entry not in declared] == []
    for entry in set(numbers) & set(declared):
        assert not declared[entry].allows(NAN)


def test_constraints_read_as_sentences():
    said = {
        above(0): "give a number above 0",
        between(0): "give a number from 0 up",
        between(0, 1, below=True): "give a number from 0 to below 1",
        either(whole(1)): "give a whole number from 1 up, or None",
        one_of("a", "b", None): "choose 'a', 'b' or None",
        whole(): "give a whole number",
    }
    assert [str(constraint) for constraint in said] == list(said.values())


def test_a_declaration_is_checked_wherever_the_value_comes_from():
    @constrained(rate=above(0), kind=one_of("a", "b"))
    def act(rate, kind="a", *, other=None):
        """Act."""
        return rate

    assert act(1) == act(rate=1) == 1
    assert act.__doc__ == "Act."
    assert list(inspect.signature(act).parameters) == ["rate", "kind", "other"]
    with pytest.raises(BadInput, match=r"act\(rate=-1\): give a number above 0\."):
        act(-1)
    with pytest.raises(UnknownName, match=r"act\(kind=c\): choose 'a' or 'b'\."):
        act(1, kind="c")
    with pytest.raises(TypeError, match="required"):
        act()
    with pytest.raises(TypeError, match="no parameter nothing"):
        constrained(nothing=above(0))(act)
    check("act", {"rate": 1}, {"rate": above(0), "absent": above(0)})
