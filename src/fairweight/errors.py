"""One class per cause that a user can act on; each message names the next step."""

from __future__ import annotations

import re
from collections.abc import Callable

_OPTION = re.compile("\x02([^\x02\x03=]+)(?:=([^\x02\x03]*))?\x03")

# Control characters, marks that change the direction of text, and lone surrogates, which no file can hold.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def option(name: str, value: object = None) -> str:
    """Name an option inside a sentence: Python shows groups.below=drop, the command line --small-groups drop."""
    return f"\x02{name}\x03" if value is None else f"\x02{name}={value}\x03"


def first_line(error: BaseException) -> str:
    """What an error of another library says, as far as it fits into a sentence."""
    return str(error).strip().split("\n")[0]


def printable(text: str) -> str:
    """Escape control characters, and bytes of a file name that are not UTF-8, before a terminal or page shows them."""
    return text if text.isprintable() else _UNSAFE.sub(lambda found: _escaped(found[0]), text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _escaped(letter: str) -> str:
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode()


class Sentence(str):
    """Text that may name options: as Python spells them; `spelled` gives another spelling, such as flags."""

    marked: str

    def __new__(cls, text: str) -> Sentence:
        marked = text.marked if isinstance(text, Sentence) else text
        made = super().__new__(cls, printable_lines(re.sub("[\x02\x03]", "", marked)))
        made.marked = marked
        return made

    def spelled(self, spell: Callable[[str, str | None], str]) -> str:
        """The sentence with each option, of a name and a value or None, as `spell` writes it."""
        return _OPTION.sub(lambda found: spell(found[1], found[2]), self.marked)


class FairweightError(Exception):
    """Something the user can mend; the command line prints its sentence and exits with status 2."""

    def __init__(self, sentence: str | None = None) -> None:
        super().__init__(Sentence(sentence or ""))

    @property
    def sentence(self) -> Sentence:
        """What went wrong and what to do next."""
        found: Sentence = self.args[0]
        return found


class BadInput(FairweightError, ValueError):
    """An argument, a tensor or a file is not of the form that was asked for."""


class RowsOutOfRange(BadInput):
    """A batch names a row that has no score."""


class LabelsBeyondLogits(BadInput):
    """A label is negative, or at least the number of classes that the model scores."""


class NoLogits(BadInput):
    """The model's output holds no tensor of one row per sample."""


class EmptyCell(BadInput):
    """A label or group that must be sampled has no member."""


class OneGroup(BadInput):
    """An objective that compares groups was given one group only."""


class MissingGroups(BadInput):
    """A method or objective needs group labels that the batch does not carry."""


class MissingExemplar(BadInput):
    """A method needs an exemplar batch and was given none."""


class NotBegun(FairweightError):
    """A method must see the training set before it is used this way."""


class ScoresMismatch(BadInput):
    """Saved scores belong to a training set of another length."""


class NoLinearHead(BadInput):
    """The model does not end in a linear layer, and that was asked for."""


class NotDifferentiable(FairweightError):
    """No gradient mode works on this model."""


class LossNotFinite(FairweightError):
    """The training loss became NaN or infinite."""


class BadCheckpoint(FairweightError):
    """A checkpoint cannot be read, or belongs to another run."""


class MissingDependency(FairweightError):
    """An optional package is needed and not installed."""


class MissingData(FairweightError):
    """A data set's files are not where they were looked for."""


class FolderRefused(BadInput):
    """A folder cannot be made, or takes no files."""


class FolderBusy(BadInput):
    """Another process is writing into the folder."""


class Damaged(BadInput):
    """A file of a run is not as the run wrote it."""


class UntrustedCode(BadInput):
    """A run folder names code that the user has not named."""


class UnknownName(BadInput):
    """No plug-in, table or option has that name."""


class UnreadableFile(BadInput):
    """A file or folder of samples is empty, damaged, or not of the kind its name says."""


class UnreadableImage(BadInput):
    """An image cannot be decoded, or does not have the size and colours of the others."""


class MissingColumn(BadInput):
    """A table lacks a column that was asked for or trained on, or holds it twice."""


class BadLabel(BadInput):
    """The label column cannot be learned from: empty entries, one class, or far too many."""


class SmallCell(BadInput):
    """A label, or a label in a group, has fewer rows than the floor."""


class NoSpace(FairweightError):
    """The disk is full, or a folder cannot be written to."""


class DownloadFailed(FairweightError):
    """A data set could not be fetched, or its checksum is not the published one."""


class RunsFailed(FairweightError):
    """Some of many runs failed; those that finished are kept."""


class RankLost(FairweightError):
    """A process that trains together with this one has ended, or takes other steps."""


_UNSUPPORTED = re.compile(
    r"forward (mode )?AD|derivative for|double backward|differentiate twice|not implemented|does not support|"
    r"doesn't support",
    re.I,
)


def lacks_derivative(error: Exception) -> bool:
    """Whether torch says that an operator has no derivative of the kind that was asked for."""
    return isinstance(error, NotImplementedError) or bool(_UNSUPPORTED.search(str(error)))
