import base64
import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from tests import audits

from fairweight.report.samples import BARS, POINTS, paths, sample_cards, thumbnails


def with_path(path):
    made = audits.trained(audits.weights(path.shape[1]))
    return replace(made, path_rows=np.arange(path.shape[1]), score_path=path)


def test_paths_are_on_one_scale_for_all_samples():
    made = with_path(np.array([[0.0, 0.0], [0.5, 0.0], [1.0, 0.1]]))
    assert paths(made) == {0: "047", 1: "000"}
    assert sample_cards(made, [0])[0]["path"] == BARS[0] + BARS[4] + BARS[7]


def test_long_paths_keep_their_ends():
    (found,) = paths(with_path(np.linspace(0, 1, 200)[:, None])).values()
    assert (len(found), found[0], found[-1]) == (POINTS, "0", "7")


@pytest.mark.parametrize("path", [np.zeros((3, 2)), np.array([[np.nan, 1.0], [0.0, np.nan]]), np.full((1, 1), np.nan)])
def test_flat_and_unknown_paths_do_no_harm(path):
    assert set("".join(paths(with_path(path)).values())) <= set("01234567")


def why(frame, place):
    return sample_cards(audits.trained(frame), [place])[0]["why"]


def test_a_reason_says_push_loss_forgetting_and_the_models_opinion():
    frame = audits.weights(100, wrong=0.2)
    frame["label"] = frame["label"].cat.set_categories(["no", "yes"])
    wrong = int(frame["forgetting_events"].to_numpy().argmax())
    found = why(frame, wrong)
    assert found.startswith("Pushed up at 0 of 5 visits; average loss 4.0")
    assert "never learned" in found
    assert f"the model says {frame['predicted'].iloc[wrong]}, and gives its label 2.0 %" in found
    frame.loc[wrong, "forgetting_events"] = 1
    assert "forgotten 1 time;" in why(frame, wrong)


def test_a_run_without_an_objective_has_nothing_to_say_of_pushes():
    assert "ushed" not in why(audits.weights(20, scores=False), 0)


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
