import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairweight.engine import state
from fairweight.errors import BadCheckpoint, BadInput

leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(max_size=5), st.integers()), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(trees)
def test_plain_trees_come_back_equal(tree):
    tensors, skeleton = state.flatten(tree)
    assert tensors == {}
    assert state.unflatten({}, skeleton) == tree


def test_tensors_of_every_kind_come_back_bit_for_bit(tmp_path):
    shared = torch.randn(4)
    tree = {
        "model": {"a": shared, "tied": shared, "view": torch.randn(4, 3).t()},
        0: [torch.tensor(3, dtype=torch.int64), torch.tensor([True, False]), torch.zeros(0)],
        "half": (torch.randn(2).to(torch.bfloat16), torch.randn(2, dtype=torch.float64)),
        "bytes": torch.arange(5, dtype=torch.uint8),
        "text": "naïve ▲",
    }
    state.save(tree, tmp_path / "file")
    back = state.load(tmp_path / "file")
    a, plain_a = state.flatten(tree)
    b, plain_b = state.flatten(back)
    assert plain_a == plain_b
    for key in a:
        assert a[key].dtype == b[key].dtype
        assert a[key].shape == b[key].shape
        assert torch.equal(a[key], b[key])


def test_what_cannot_be_saved_is_named():
    with pytest.raises(BadInput, match="/scheduler/lambda holds a function"):
        state.flatten({"scheduler": {"lambda": lambda x: x}})


def test_missing_file_is_a_sentence(tmp_path):
    with pytest.raises(BadCheckpoint, match="cannot be read"):
        state.load(tmp_path / "nothing")


def test_saves_at_the_ends_of_epochs_take_a_tenth_of_the_time_at_most(tmp_path, monkeypatch):
    from fairweight.engine import checkpoint as module

    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

    def slow(tree, path):
        now[0] += 2.0

    monkeypatch.setattr(module.state, "save", slow)
    kept = module.Checkpoint(tmp_path, {}, every=30.0)
    assert kept.cheap()  # nothing has been kept yet
    kept.save(1, {})
    for passed, cheap in ((1.0, False), (18.0, False), (2.0, True)):
        now[0] += passed
        assert kept.cheap() is cheap, now[0]
    now[0] += 30.0
    assert kept.due()
    assert kept.cheap()
