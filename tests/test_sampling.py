"""Batches as pure functions of the seed and the step."""

from __future__ import annotations

import logging

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairweight.errors import BadInput, EmptyCell
from fairweight.sampling import Cells, ExemplarSampler, TrainSampler, generator
from fairweight.types import Batch

# -- train batches ------------------------------------------------------------------------------------------


@given(samples=st.integers(1, 40), size=st.integers(1, 12), seed=st.integers(0, 99), drop=st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_epoch_is_a_permutation(samples, size, seed, drop):
    sampler = TrainSampler(samples, size, seed, drop_last=drop)
    for epoch in range(3):
        batches = [sampler.rows(epoch * len(sampler) + k) for k in range(len(sampler))]
        rows = torch.cat(batches).tolist()
        assert len(set(rows)) == len(rows)
        assert set(rows) <= set(range(samples))
        whole = min(size, samples)
        if drop and samples >= size:
            assert {len(b) for b in batches} == {whole}
            assert samples - len(rows) < size
        else:
            assert sorted(rows) == list(range(samples))
            assert {len(b) for b in batches[:-1]} <= {whole}
            assert min(len(b) for b in batches) > 1 or whole == 1  # nobody is left alone
            assert max(len(b) for b in batches) <= whole + 1


def test_epochs_differ_and_seeds_differ():
    a, b = TrainSampler(100, 100, 0), TrainSampler(100, 100, 1)
    assert not torch.equal(a.rows(0), a.rows(1))
    assert not torch.equal(a.rows(0), b.rows(0))


@given(steps=st.lists(st.integers(0, 60), min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_a_batch_depends_on_the_seed_and_the_step_alone(steps):
    """In any order, in a new object, with the caller's random stream anywhere: resuming needs the step and no more."""
    one = TrainSampler(23, 5, 7)
    for step in steps:
        torch.rand(3)
        assert torch.equal(one.rows(step), TrainSampler(23, 5, 7).rows(step))


def test_drawing_leaves_the_callers_random_stream():
    before = torch.get_rng_state()
    TrainSampler(100, 10).rows(3)
    ExemplarSampler(Cells.of(torch.arange(30) % 3), 4).rows(5)
    assert torch.equal(before, torch.get_rng_state())


def test_a_batch_larger_than_the_set_is_the_set():
    sampler = TrainSampler(7, 100, drop_last=True)
    assert len(sampler) == 1
    assert sorted(sampler.rows(4).tolist()) == list(range(7))


@pytest.mark.parametrize(("samples", "size"), [(0, 5), (5, 0), (-1, 5)])
def test_no_samples_or_no_batch(samples, size):
    with pytest.raises(BadInput, match="give a whole number from 1 up"):
        TrainSampler(samples, size)


def test_streams_by_key_are_the_same_everywhere():
    assert torch.rand(2, generator=generator("train", 0, 0)).tolist() == pytest.approx(
        [0.59507436, 0.30064934], abs=1e-7
    )
    seen = {torch.randint(0, 2**40, (1,), generator=generator("a", k)).item() for k in range(100)}
    assert len(seen) == 100


# -- exemplar batches -----------------------------------------------------------------------------------------

LABELS = torch.tensor([0] * 9 + [1] * 5 + [2] * 4)
GROUPS = torch.tensor([0, 1, 0] * 6)


def by_cell(cells, rows):
    return [rows[cells.index[rows] == k].tolist() for k in range(len(cells))]


@given(
    sizes=st.lists(st.integers(1, 17), min_size=1, max_size=4),
    per_cell=st.integers(1, 9),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_exactly_n_per_cell_none_twice_and_everybody_equally_often(sizes, per_cell, seed):
    labels = torch.cat([torch.full((n,), k) for k, n in enumerate(sizes)])
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))]
    cells = Cells.of(labels)
    logging.disable(logging.WARNING)
    sampler = ExemplarSampler(cells, per_cell, seed)
    logging.disable(logging.NOTSET)
    seen = torch.zeros(len(labels), dtype=torch.int64)
    for step in range(25):
        rows = sampler.rows(step)
        assert len(rows) == len(sampler) == per_cell * len(sizes)
        for k, members in enumerate(by_cell(cells, rows)):
            assert len(members) == per_cell
            times = torch.bincount(torch.tensor(members), minlength=len(labels))[labels == k]
            assert int(times.max() - times.min()) <= 1  # none twice, or where the cell is too small: evenly
        seen += torch.bincount(rows, minlength=len(labels))
        for k in range(len(sizes)):
            assert int(seen[labels == k].max() - seen[labels == k].min()) <= 2
    for k, n in enumerate(sizes):
        total = torch.zeros(len(labels), dtype=torch.int64)
        for step in range(n):  # n batches of per_cell go through the cell per_cell times exactly
            total += torch.bincount(sampler.rows(step), minlength=len(labels))
        assert set(total[labels == k].tolist()) == {per_cell}


@given(steps=st.lists(st.integers(0, 200), min_size=1, max_size=6), per_cell=st.integers(1, 7))
@settings(max_examples=30, deadline=None)
def test_an_exemplar_batch_depends_on_the_seed_and_the_step_alone(steps, per_cell):
    cells = Cells.of(LABELS)
    logging.disable(logging.WARNING)
    one = ExemplarSampler(cells, per_cell, 3)
    for step in steps:
        assert torch.equal(one.rows(step), ExemplarSampler(cells, per_cell, 3).rows(step))
    logging.disable(logging.NOTSET)


def test_passes_are_shuffled_anew():
    cells = Cells.of(torch.zeros(12, dtype=torch.int64))
    sampler = ExemplarSampler(cells, 4, 0)
    firsts = {tuple(sorted(sampler.rows(3 * k).tolist())) for k in range(10)}
    assert len(firsts) > 5
    other = ExemplarSampler(cells, 4, 1)
    assert not torch.equal(sampler.rows(0), other.rows(0))


def test_small_cells_are_reused_and_reported(caplog):
    cells = Cells.of(LABELS, label_names=("a", "b", "c"))
    with caplog.at_level(logging.WARNING, "fairweight"):
        sampler = ExemplarSampler(cells, 6)
    assert sampler.reused == ("label=b", "label=c")
    assert "2 of 3 cells have fewer than 6 exemplars and are reused within a batch: label=b; label=c" in caplog.text
    assert len(sampler.rows(0)) == 18
    caplog.clear()
    assert ExemplarSampler(cells, 4).reused == ()
    assert not caplog.records


def test_natural_shares():
    """9, 5 and 4 of 18: drawn evenly, a sample of the first cell stands for 1.5 of its kind."""
    sampler = ExemplarSampler(Cells.of(LABELS), 2)
    expected = torch.tensor([9, 9, 5, 5, 4, 4]) / 18 * 3
    torch.testing.assert_close(sampler.shares, expected)
    assert float(sampler.shares.mean()) == pytest.approx(1.0)
    data = Batch(torch.arange(18.0)[:, None], LABELS)
    batch = sampler.batch(data, 0)
    assert batch.labels.tolist() == [0, 0, 1, 1, 2, 2]
    torch.testing.assert_close(batch.shares, expected)
    assert torch.equal(batch.inputs[:, 0].long(), batch.rows)
    weighted = float((batch.shares * batch.labels).mean())
    assert weighted == pytest.approx(float(LABELS.double().mean()))


def test_a_set_that_brings_its_own_shares_keeps_them():
    own = torch.rand(18)
    batch = ExemplarSampler(Cells.of(LABELS), 2).batch(Batch(torch.zeros(18, 1), LABELS, shares=own), 0)
    assert torch.equal(batch.shares, own[batch.rows])


def test_unknown_groups_are_left_out():
    groups = GROUPS.clone()
    groups[::4] = -1
    cells = Cells.of(LABELS, groups)
    sampler = ExemplarSampler(cells, 1)
    for step in range(10):
        assert (groups[sampler.rows(step)] >= 0).all()
    assert len(sampler) == len(cells) == 5
    counts = torch.tensor(cells.counts)
    torch.testing.assert_close(sampler.shares, counts / counts.sum() * 5)


def test_empty_cells():
    with pytest.raises(EmptyCell, match="no sample with a known group; give group labels"):
        ExemplarSampler(Cells.of(LABELS, torch.full((18,), -1)), 2)
    with pytest.raises(EmptyCell, match="4 exemplars with label=2, fewer than 5; lower the floor or drop the group"):
        ExemplarSampler(Cells.of(LABELS), 2, floor=5)
    with pytest.raises(BadInput, match="per_cell=0"):
        ExemplarSampler(Cells.of(LABELS), 0)


def test_many_cells_and_a_large_set_are_drawn_quickly():
    cells = Cells.of(torch.arange(200_000) % 100)
    sampler = ExemplarSampler(cells, 3)
    assert len(sampler.rows(12_345).unique()) == 300


def uneven() -> Cells:
    """Cells of 5, 20 and 35 exemplars, and some whose group is not known."""
    labels = torch.tensor([0] * 5 + [1] * 20 + [2] * 35 + [2] * 4)
    groups = torch.tensor([0] * 60 + [-1] * 4)
    return Cells.of(labels, groups)


@pytest.mark.parametrize(("per_cell", "at_least"), [(3, 24), (1, 7), (5, 60), (2, 1000)])
def test_a_larger_batch_has_its_cells_first_and_the_rest_from_all(per_cell, at_least):
    cells = uneven()
    sampler = ExemplarSampler(cells, per_cell, seed=4, at_least=at_least)
    size = max(3 * per_cell, min(at_least, 60))
    assert len(sampler) == size
    times = torch.zeros(64)
    for step in range(200):
        rows = sampler.rows(step)
        assert len(rows) == len(set(rows.tolist())) == size
        assert int(rows.max()) < 60  # those of no known group are left out
        first = ExemplarSampler(cells, per_cell, seed=4).rows(step)
        assert torch.equal(rows[: 3 * per_cell], first)
        times[rows] += 1
    assert bool((times[:60] > 0).all())
    again = ExemplarSampler(cells, per_cell, seed=4, at_least=at_least)
    assert torch.equal(again.rows(171), sampler.rows(171))  # from its step alone, whatever came before


def test_cells_have_their_natural_shares_in_a_larger_batch():
    cells = uneven()
    held = Batch(torch.zeros(64, 1), torch.tensor([0] * 5 + [1] * 20 + [2] * 39), torch.tensor([0] * 60 + [-1] * 4))
    sampler = ExemplarSampler(cells, 3, at_least=24)
    for step in range(20):
        batch = sampler.batch(held, step)
        assert float(batch.shares.mean()) == pytest.approx(1.0)
        for label, count in enumerate((5, 20, 35)):
            assert float(batch.shares[batch.labels == label].sum()) == pytest.approx(24 * count / 60, rel=1e-5)


def test_no_more_than_is_asked_for_by_cell_is_the_usual_batch():
    cells = uneven()
    usual, same = ExemplarSampler(cells, 3, seed=2), ExemplarSampler(cells, 3, seed=2, at_least=9)
    assert torch.equal(usual.rows(13), same.rows(13))
    assert torch.equal(usual.shares, same.shares)
