import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from fairweight.errors import BadCheckpoint, BadInput
from fairweight.training import state

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


@pytest.mark.slow
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


def test_equal_trees_are_equal_files_and_those_of_older_versions_are_read(tmp_path):
    tree = {"scores": torch.arange(3.0), "epoch": 2, "groups": None}
    for place in range(8):  # safetensors orders several entries of its header by chance
        state.save(tree, tmp_path / f"{place}.safetensors")
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
    with safe_open(tmp_path / "0.safetensors", framework="pt") as file:
        crc32, skeleton = file.metadata()["tree"].split(" ", 1)
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    save_file(tensors, tmp_path / "old.safetensors", metadata={"tree": skeleton, "crc32": crc32})
    assert str(state.load(tmp_path / "old.safetensors")) == str(tree)


def test_a_bit_that_was_lost_is_refused_wherever_it_stood(tmp_path):
    tree = {"a": torch.arange(20.0), "b": [torch.arange(9, dtype=torch.uint8), torch.tensor(3)], "step": 12}
    state.save(tree, tmp_path / "file")
    content = (tmp_path / "file").read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 7)
        (tmp_path / "file").write_bytes(changed)
        try:
            back = state.load(tmp_path / "file")
        except BadCheckpoint:
            continue
        tensors, skeleton = state.flatten(back)  # a bit that nobody reads, such as that of a space
        expected, plain = state.flatten(tree)
        assert skeleton == plain, place
        assert all(torch.equal(tensors[key], t) and tensors[key].dtype == t.dtype for key, t in expected.items()), place


def test_what_cannot_be_saved_is_named():
    with pytest.raises(BadInput, match="/scheduler/lambda holds a function"):
        state.flatten({"scheduler": {"lambda": lambda x: x}})


def test_missing_file_is_a_sentence(tmp_path):
    with pytest.raises(BadCheckpoint, match="cannot be read"):
        state.load(tmp_path / "nothing")


def test_a_link_in_the_place_of_a_temporary_file_is_not_followed(tmp_path):
    dear, path = tmp_path / "dear.txt", tmp_path / "run.json"
    dear.write_text("dear")
    (tmp_path / f".run.json.{os.getpid()}.part").symlink_to(dear)
    state.write_atomically(path, b"{}")
    assert (path.read_bytes(), dear.read_text(), path.is_symlink()) == (b"{}", "dear", False)
