import base64
import io

import numpy as np
import pytest
from PIL import Image

from fairweight.errors import BadInput
from fairweight.report.thumbnails import thumbnails


def opened(uri):
    return Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1])))


def test_small_grey_pictures_keep_every_pixel():
    pixels = np.arange(64, dtype=np.uint8).reshape(1, 1, 8, 8) * 4
    found = thumbnails(pixels, [7])
    assert found[7].startswith("data:image/png;base64,")
    assert np.array_equal(np.asarray(opened(found[7])), pixels[0, 0])


def test_large_colour_pictures_are_made_small():
    pixels = np.zeros((1, 3, 300, 200), dtype=np.uint8)
    pixels[:, 0] = 255
    image = opened(thumbnails(pixels, [0])[0])
    assert max(image.size) == 64
    red, green, _ = image.convert("RGB").getpixel((5, 5))
    assert red > 240
    assert green < 20


def test_other_shapes_are_refused():
    with pytest.raises(BadInput, match="thumbnails needs pixels"):
        thumbnails(np.zeros((1, 4, 8, 8), dtype=np.uint8), [0])
