"""Where samples come from: a named set, a table, images or a frame becomes a Dataset, with every choice on record.

    dataset = load("adult")
    dataset = load("people.csv", label="income", group="sex,race")
    dataset = load("faces/", label="label", options=Options(image=ImageOptions(size=64)))

A named set is one file in `data/sets` with one public class; the catalog finds it by its file name.
"""

from fairweight.data.augment import Chain, Flip, Shift
from fairweight.data.dataset import Dataset, Part, Preprocessing, load, preprocessing_from
from fairweight.data.image.normalize import Normalize
from fairweight.data.image.preprocessing import ImagePreprocessing
from fairweight.data.image.stream import Streamed
from fairweight.data.meaning import New
from fairweight.data.options import Exemplar, GroupOptions, ImageOptions, LabelOptions, Options, Split, TableOptions
from fairweight.data.source import Found, NamedSet, Request, named_set
from fairweight.data.table.preprocessing import TablePreprocessing

__all__ = [
    "Chain", "Dataset", "Exemplar", "Flip", "Found", "GroupOptions", "ImageOptions", "ImagePreprocessing",
    "LabelOptions", "NamedSet", "New", "Normalize", "Options", "Part", "Preprocessing", "Request", "Shift", "Split",
    "Streamed", "TableOptions", "TablePreprocessing", "load", "named_set", "preprocessing_from",
]  # fmt: skip
