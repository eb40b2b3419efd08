from __future__ import annotations

import pytest
import torch

from fairweight.data import Chain, Flip, Normalize, Shift
from fairweight.errors import BadInput


def _images(count=16, dtype=torch.uint8):
    return torch.randint(0, 256, (count, 3, 8, 6), generator=torch.Generator().manual_seed(0)).to(dtype)


def _generator():
    return torch.Generator().manual_seed(7)


def test_flip_against_one_image_at_a_time():
    images = _images()
    drawn = torch.rand(16, generator=_generator())
    slow = torch.stack([image.flip(-1) if value < 0.5 else image for image, value in zip(images, drawn, strict=True)])
    assert torch.equal(Flip()(images, _generator()), slow)
    assert torch.equal(Flip(0.0)(images, _generator()), images)
    assert torch.equal(Flip(1.0)(images, _generator()), images.flip(-1))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_shift_against_one_image_at_a_time(dtype):
    images = _images(dtype=dtype)
    top, left = torch.randint(0, 5, (2, 16), generator=_generator())
    slow = []
    for place, image in enumerate(images):
        wide = torch.zeros(3, 12, 10, dtype=dtype)
        wide[:, 2:10, 2:8] = image
        slow.append(wide[:, top[place] : top[place] + 8, left[place] : left[place] + 6])
    assert torch.equal(Shift(2)(images, _generator()), torch.stack(slow))
    assert torch.equal(Shift(0)(images, _generator()), images)


def test_a_chain_is_its_steps_in_order_and_leaves_its_input_alone():
    images = _images()
    before = images.clone()
    generator = _generator()
    expected = Shift(4)(Flip()(images, generator), generator)
    made = Chain(Flip(), Shift(4))(images, _generator())
    assert torch.equal(made, expected)
    assert torch.equal(images, before)
    assert made.dtype == torch.uint8
    assert made.shape == images.shape


def test_every_shift_is_as_likely():
    images = torch.zeros(9000, 1, 3, 3, dtype=torch.uint8)
    images[:, 0, 1, 1] = 1
    places = Shift(1)(images, _generator()).flatten(1).argmax(1)
    counts = torch.bincount(places, minlength=9)
    assert counts.min() > 850
    assert counts.max() < 1150


@pytest.mark.parametrize(
    "make", [lambda: Flip(1.5), lambda: Shift(-1), lambda: Flip()(torch.zeros(3, 4), _generator())]
)
def test_refused(make):
    with pytest.raises(BadInput):
        make()


def test_normalize_takes_bytes_to_floats_and_can_be_differentiated():
    layer = Normalize((0.5, 0.25, 0.0), (0.5, 0.5, 1.0))
    images = _images()
    expected = (images.float() / 255 - torch.tensor([0.5, 0.25, 0.0]).view(3, 1, 1)) / torch.tensor(
        [0.5, 0.5, 1.0]
    ).view(3, 1, 1)
    torch.testing.assert_close(layer(images), expected)
    assert layer.state_dict() == {}  # it travels in the preprocessing
    assert layer.double()(images).dtype == torch.float64
    floats = torch.rand(2, 3, 4, 4, requires_grad=True)
    Normalize((0.5,) * 3, (0.5,) * 3)(floats).sum().backward()
    torch.testing.assert_close(floats.grad, torch.full_like(floats, 2.0))
