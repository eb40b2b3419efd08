from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional

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


def _flipped(images, probability, generator):
    """The twin of Flip: both images are made, and one is taken."""
    drawn = torch.rand(len(images), generator=generator)
    return torch.where((drawn < probability).view(-1, 1, 1, 1), images.flip(-1), images)


def _shifted(images, pixels, generator):
    """The twin of Shift: zeros around the images, then two gathers."""
    count, channels, height, width = images.shape
    top, left = torch.randint(0, 2 * pixels + 1, (2, count), generator=generator)
    padded = functional.pad(images, [pixels] * 4)
    rows, columns = top[:, None] + torch.arange(height), left[:, None] + torch.arange(width)
    tall = padded.gather(2, rows[:, None, :, None].expand(-1, channels, -1, padded.shape[3]))
    return tall.gather(3, columns[:, None, None, :].expand(-1, channels, height, -1))


STEPS = {"flip": (Flip(0.4), _flipped, 0.4), "shift": (Shift(3), _shifted, 3), "far": (Shift(9), _shifted, 9)}


@pytest.mark.parametrize("names", [*itertools.product(STEPS, repeat=2), ("flip", "shift", "flip", "far", "flip")])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("count", [0, 33])
def test_pixels_moved_once_are_those_moved_step_by_step(names, layout, count):
    images = _images(count, torch.float32).contiguous(memory_format=layout)
    generator, twin = _generator(), _generator()
    made = Chain(*(STEPS[name][0] for name in names))(images, generator)
    expected = images
    for name in names:
        _, slow, amount = STEPS[name]
        expected = slow(expected, amount, twin)
    assert torch.equal(made, expected)
    assert torch.equal(torch.rand(3, generator=generator), torch.rand(3, generator=twin))  # as many draws were made


def test_a_chain_calls_what_is_not_its_own_and_a_subclass_in_its_own_way():
    class Twice(Flip):
        def __call__(self, inputs, generator):
            return super().__call__(inputs, generator) * 2

    def brighter(inputs, generator):
        return inputs + torch.rand(1, generator=generator)

    images, generator = _images(dtype=torch.float32), _generator()
    made = Chain(Flip(), brighter, Shift(1), Chain(Twice(), Flip()))(images, _generator())
    expected = _shifted(brighter(_flipped(images, 0.5, generator), generator), 1, generator)
    expected = _flipped(_flipped(expected, 0.5, generator) * 2, 0.5, generator)
    assert torch.equal(made, expected)


def test_a_chain_moves_the_pixels_once():
    images, moved = _images(), []

    class Counting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            found = function(*args, **(kwargs or {}))
            if isinstance(found, torch.Tensor) and found.ndim == 4 and function.__name__.split(".")[0] in COMPUTE:
                moved.append(function.__name__)
            return found

    with Counting():
        Chain(Flip(), Shift(4), Flip())(images, _generator())
    assert sorted(name.split(".")[0] for name in moved) == ["constant_pad_nd", "gather", "gather"]


COMPUTE = {"where", "flip", "gather", "index", "constant_pad_nd", "copy_", "fill_", "add", "mul", "lt", "clone"}


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
