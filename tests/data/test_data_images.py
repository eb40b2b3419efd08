from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from tests.image_sets import note, whole

from fairweight.data import Exemplar, ImageOptions, Options, Split, load, preprocessing_from
from fairweight.data.image import decode
from fairweight.data.image.normalize import pixel_sums, statistics
from fairweight.errors import MissingColumn, MissingData, UnreadableImage


def test_a_folder_with_a_class_per_subfolder(pictures):
    folder, pixels = pictures
    data = load(folder)
    assert data.kind == "image"
    assert not any("16 bits" in note for note in data.notes)
    assert data.label_names == ("cat", "dog")
    assert data.input_shape == (3, 6, 5)
    assert data.train.inputs.dtype == torch.uint8
    assert torch.equal(whole(data), torch.from_numpy(pixels))
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.png"))
    assert list(data.files) == [files[row] for row in data.rows["train"].tolist()]
    with pytest.raises(MissingColumn, match=r"put a metadata\.csv with file_name and your columns into the folder"):
        load(folder, label="age")


def test_files_that_programs_put_beside_pictures_are_no_samples(pictures):
    folder, pixels = pictures
    for name in ("cat/._000.png", "cat/.thumbs/000.png", "__MACOSX/cat/._000.png", ".git/cat/000.png", "cat/Thumbs.db"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"no image")
    data = load(folder)
    assert data.label_names == ("cat", "dog")
    assert torch.equal(whole(data), torch.from_numpy(pixels))
    assert len(data.preprocessing.read(folder / "cat").inputs) == 20
    for absent in (folder / "horse", folder / "cat" / "*.png"):
        with pytest.raises(MissingData, match="there is no file or folder"):
            data.preprocessing.read(absent)


def test_a_folder_with_parts(pictures, tmp_path):
    folder, pixels = pictures
    for place, path in enumerate(sorted(folder.rglob("*.png"))):
        target = tmp_path / "parts" / ("test" if place % 2 else "train") / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    data = load(tmp_path / "parts", options=Options(split=Split(validation=0.0), exemplar=Exemplar(size=2)))
    assert torch.equal(data.test.inputs, torch.from_numpy(pixels[1::2]))
    assert len(data.train) + len(data.exemplar) == 20
    assert data.validation is None


@pytest.mark.parametrize("where", ["metadata.csv in the folder", "a list elsewhere"])
def test_a_list_of_files_with_labels_and_groups(pictures, tmp_path, where):
    folder, pixels = pictures
    files = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.png"))]
    frame = pd.DataFrame(
        {"file_name": files, "kind": ["x" if i % 3 else "y" for i in range(40)], "light": ["day", "night"] * 20}
    )
    options = Options(split=Split(validation=0.0), exemplar=Exemplar(size=1))
    if where == "metadata.csv in the folder":
        frame.to_csv(folder / "metadata.csv", index=False)
        data = load(folder, label="kind", group="light", options=options)
    else:
        frame.to_csv(tmp_path / "list.csv", index=False)
        options = replace(options, image=ImageOptions(root=str(folder)))
        data = load(tmp_path / "list.csv", label="kind", group="light", options=options)
    assert data.label_names == ("x", "y")
    assert data.group_names == ("day", "night")
    assert [data.label_names[k] for k in data.train.labels] == frame["kind"].iloc[data.rows["train"].numpy()].tolist()
    assert torch.equal(data.train.inputs, torch.from_numpy(pixels[data.rows["train"].numpy()]))


def _parquet(png, path, pixels, **columns):
    frame = pd.DataFrame(columns)
    frame["img"] = [{"bytes": png(image), "path": f"{i}.png"} for i, image in enumerate(pixels)]
    frame.to_parquet(path)


def test_parquet_in_the_hugging_face_layout(tmp_path, png):
    pixels = np.random.default_rng(0).integers(0, 256, (60, 4, 4, 3), dtype=np.uint8)
    age, sex = [i % 3 for i in range(60)], ["f" if i % 2 else "m" for i in range(60)]
    _parquet(png, tmp_path / "train-00000-of-00002.parquet", pixels[:20], age=age[:20], sex=sex[:20])
    _parquet(png, tmp_path / "train-00001-of-00002.parquet", pixels[20:40], age=age[20:40], sex=sex[20:40])
    _parquet(png, tmp_path / "test-00000-of-00001.parquet", pixels[40:], age=age[40:], sex=sex[40:])
    options = Options(split=Split(validation=0.0), exemplar=Exemplar(size=1))
    data = load(tmp_path, label="age", group="sex", options=options)
    assert torch.equal(data.test.inputs, torch.from_numpy(pixels[40:].transpose(0, 3, 1, 2)))
    assert data.test.labels.tolist() == age[40:]
    assert torch.equal(data.train.inputs, torch.from_numpy(pixels[data.rows["train"].numpy()].transpose(0, 3, 1, 2)))
    one = load(str(tmp_path / "train-*.parquet"), label="age", options=Options(exemplar=Exemplar(size=1)))
    assert sum(len(rows) for rows in one.rows.values()) == 40


@pytest.mark.parametrize("name", ["image", "jpeg_bytes", "Photo"])
def test_parquet_with_a_binary_column_of_images(tmp_path, png, name):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 4, 4, 3), dtype=np.uint8)
    frame = pd.DataFrame({name: [png(image) for image in pixels], "age": [i % 2 for i in range(40)]})
    frame.to_parquet(tmp_path / "faces.parquet")
    data = load(tmp_path / "faces.parquet", label="age")
    assert data.kind == "image"
    assert torch.equal(whole(data), torch.from_numpy(pixels.transpose(0, 3, 1, 2)))


def test_decoding_equals_pillow_one_by_one(png):
    draw = np.random.default_rng(2)
    images = [draw.integers(0, 256, (20, 24, 3), dtype=np.uint8) for _ in range(150)]
    pictures = [
        decode.Picture(png(image, form), "x") for image, form in zip(images, ["PNG", "JPEG", "WEBP"] * 50, strict=True)
    ]
    form = decode.Form(height=8, width=10, crop=16)
    fast, bad = decode.Decoder(form, workers=4).all(lambda shape: np.empty(shape, np.uint8), pictures)
    assert (fast.shape, bad) == ((150, 3, 8, 10), [])
    for row, picture in enumerate(pictures):  # the slow twin
        image = (
            Image.open(io.BytesIO(picture.content))
            .convert("RGB")
            .crop((4, 2, 20, 18))
            .resize((10, 8), Image.Resampling.BILINEAR)
        )
        assert np.array_equal(fast[row], np.asarray(image).transpose(2, 0, 1))


def test_grey_stays_grey_and_one_coloured_image_makes_all_coloured(tmp_path, png):
    grey = np.random.default_rng(3).integers(0, 256, (24, 4, 4), dtype=np.uint8)
    for place, image in enumerate(grey):
        path = tmp_path / "set" / "ab"[place % 2] / f"{place:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(image))
    options = Options(exemplar=Exemplar(size=1))
    assert load(tmp_path / "set", options=options).input_shape == (1, 4, 4)
    (tmp_path / "set" / "b" / "99.png").write_bytes(png(np.full((4, 4, 3), 7, np.uint8)))
    assert load(tmp_path / "set", options=options).input_shape == (3, 4, 4)
    forced = Options(exemplar=Exemplar(size=1), image=ImageOptions(channels=1))
    assert load(tmp_path / "set", options=forced).input_shape == (1, 4, 4)


def test_a_turned_photograph_is_turned_back(tmp_path):
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[:, :3] = 255
    turned = Image.fromarray(pixels)
    exif = turned.getexif()
    exif[0x0112] = 6  # lies on its right side
    turned.save(tmp_path / "a.png", exif=exif)
    found = decode.Decoder(decode.Form()).one(decode.Picture(tmp_path / "a.png", "a"))
    assert found.shape == (3, 6, 4)


def test_damaged_images_can_be_left_out(pictures):
    folder, pixels = pictures
    (folder / "cat" / "003.png").write_bytes(b"not an image")
    with pytest.raises(UnreadableImage, match=r"003\.png cannot be decoded"):
        load(folder)
    for cached in (True, False):
        data = load(folder, options=Options(image=ImageOptions(unreadable="drop", cache=cached)))
        assert note(data, "1 image of train cannot be decoded or is not there: left out ('cat/003.png')")
        assert note(data, "39 images were decoded") == cached
        rows = torch.cat(list(data.rows.values())).sort().values
        assert rows.tolist() == [row for row in range(40) if row != 3]
        assert torch.equal(whole(data), torch.from_numpy(pixels[rows.numpy()]))


def test_sizes_must_agree_unless_one_is_given(pictures, png):
    folder, _ = pictures
    (folder / "dog" / "030.png").write_bytes(png(np.zeros((9, 9, 3), np.uint8)))
    with pytest.raises(UnreadableImage, match=r"is 9x9 and the first image 6x5; set image.size"):
        load(folder)
    assert load(folder, options=Options(image=ImageOptions(size=(7, 8)))).input_shape == (3, 7, 8)


def test_statistics_are_those_of_train_alone(pictures):
    data = load(pictures[0])
    train = data.train.inputs.double() / 255
    mean, std = train.mean((0, 2, 3)), train.std((0, 2, 3), correction=0)
    torch.testing.assert_close(torch.tensor(data.preprocessing.mean, dtype=torch.float64), mean)
    torch.testing.assert_close(torch.tensor(data.preprocessing.std, dtype=torch.float64), std)
    floats = data.preprocessing.input_module()(data.train.inputs)
    assert floats.dtype == torch.float32
    assert floats.mean().abs() < 1e-5


@pytest.mark.parametrize("cached", [True, False])
def test_sums_kept_with_the_pixels_give_the_same_statistics(pictures, cached):
    whole = load(pictures[0], options=Options(image=ImageOptions(cache=cached)))
    some = load(pictures[0], options=Options(image=ImageOptions(cache=cached), limit=20, exemplar=Exemplar(size=1)))
    for data in (whole, some):
        slow = statistics(pixel_sums(data.train.inputs.numpy(), at_once=3), 30)
        assert (data.preprocessing.mean, data.preprocessing.std) == slow


def test_prediction_reads_new_images_in_the_same_form(pictures, tmp_path):
    folder, pixels = pictures
    data = load(folder, options=Options(image=ImageOptions(size=4)))
    again = preprocessing_from(json.loads(json.dumps(data.preprocessing.to_dict())))
    assert again == data.preprocessing
    new = again.read(folder)
    assert torch.equal(new.inputs[data.rows["test"]], data.test.inputs)
    assert torch.equal(new.labels[data.rows["test"]], data.test.labels)
    path = folder / "dog" / "020.png"
    one = again.read(path)
    assert torch.equal(one.inputs[0], new.inputs[20])
    assert one.labels is None
    assert pixels.shape[0] == len(new)


def test_prediction_never_changes_a_size_that_training_did_not(pictures, tmp_path, png):
    data = load(pictures[0])
    (tmp_path / "new.png").write_bytes(png(np.zeros((9, 9, 3), np.uint8)))
    with pytest.raises(UnreadableImage, match="these images are 3x9x9 and the model was trained on 3x6x5"):
        data.preprocessing.read(tmp_path / "new.png")
    sized = load(pictures[0], options=Options(image=ImageOptions(size=8)))
    assert sized.preprocessing.read(tmp_path / "new.png").inputs.shape == (1, 3, 8, 8)


def test_a_frame_of_files(pictures):
    folder, pixels = pictures
    paths = sorted(folder.rglob("*.png"))
    frame = pd.DataFrame({"where": [str(path) for path in paths], "label": [path.parent.name for path in paths]})
    data = load(frame, options=Options(image=ImageOptions(file_column="where")))
    assert torch.equal(whole(data), torch.from_numpy(pixels))


def test_the_fingerprint_knows_what_images_show_and_not_where_they_lie(tmp_path):
    folder, moved = tmp_path / "here" / "pictures", tmp_path / "there" / "pictures"
    for place in range(40):
        path = folder / "ab"[place % 2] / f"{place}.bmp"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), place).save(path)
    options = Options(image=ImageOptions(cache_dir=str(tmp_path / "cache")))
    first = load(folder, options=options).fingerprint
    assert load(folder, options=options).fingerprint == first
    shutil.copytree(folder, moved)
    assert load(moved, options=options).fingerprint == first
    Image.new("L", (4, 4), 200).save(moved / "a" / "0.bmp")  # as many bytes as before
    assert load(moved, options=options).fingerprint != first
    assert load(moved, options=Options(image=ImageOptions(cache=False))).fingerprint != first


@pytest.mark.parametrize("form", ["PNG", "TIFF", "PPM"])
@pytest.mark.parametrize("cached", [True, False])
def test_16_bits_of_grey_are_read_as_8(tmp_path, form, cached):
    wide = np.random.default_rng(0).integers(0, 65_536, (24, 6, 5), dtype=np.uint16)
    for place, image in enumerate(wide):
        suffix = {"PNG": "png", "TIFF": "tif", "PPM": "pgm"}[form]
        path = tmp_path / "scans" / "ab"[place % 2] / f"{place // 2:02d}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path, form)
    options = Options(image=ImageOptions(cache=cached))
    for _ in range(2):  # the second time from the cache, where there is one
        data = load(tmp_path / "scans", options=options)
        expected = (np.concatenate([wide[::2], wide[1::2]]) >> 8).astype(np.uint8)[:, None]
        assert torch.equal(whole(data), torch.from_numpy(expected))
        assert [note for note in data.notes if "16 bits" in note] == [
            "24 images have 16 bits per pixel: the upper 8 of them are read."
        ]
    new = data.preprocessing.read(tmp_path / "scans")
    assert torch.equal(new.inputs, torch.from_numpy(expected))
    assert any("16 bits" in note for note in new.notes)


@pytest.mark.parametrize("cached", [True, False])
def test_entries_of_a_list_that_are_no_images_can_be_left_out(pictures, cached):
    folder, pixels = pictures
    files = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.png"))]
    files[2], files[5], files[30] = "nowhere.png", "not known", None
    listed = pd.DataFrame({"file_name": files, "paid": ["no", "yes"] * 20})
    listed.to_csv(folder / "metadata.csv", index=False)
    with pytest.raises(UnreadableImage, match="unreadable=drop"):
        load(folder, label="paid")
    data = load(folder, label="paid", options=Options(image=ImageOptions(unreadable="drop", cache=cached)))
    said = "3 images of train cannot be decoded or are not there: left out ('nowhere.png', 'not known', '.')"
    assert any(said in note for note in data.warnings)
    rows = torch.cat(list(data.rows.values())).sort().values
    assert rows.tolist() == [row for row in range(40) if row not in (2, 5, 30)]
    assert torch.equal(whole(data), torch.from_numpy(pixels[rows.numpy()]))


def test_a_table_that_names_few_images_stays_a_table(people):
    people["file"] = ["a.png"] + ["letter", "mail"] * 199 + ["call"]
    assert load(people, label="income").kind == "table"


@pytest.mark.parametrize("layout", ["a test folder of its own", "folders train and test"])
def test_a_part_may_have_a_list_of_its_own(tmp_path, png, layout):
    for part in ("train", "test"):
        folder = tmp_path / "set" / part
        folder.mkdir(parents=True)
        for place in range(40):
            (folder / f"{place}.png").write_bytes(png(np.full((4, 4), place, np.uint8)))
        listed = pd.DataFrame({"file_name": [f"{place}.png" for place in range(40)], "paid": ["no", "yes"] * 20})
        listed.to_csv(folder / "metadata.csv", index=False)
    if layout == "folders train and test":
        data = load(tmp_path / "set", label="paid")
    else:
        split = Split(test=str(tmp_path / "set" / "test"))
        data = load(tmp_path / "set" / "train", label="paid", options=Options(split=split))
    assert len(data.test) == 40
    assert data.test.labels.tolist() == [0, 1] * 20
