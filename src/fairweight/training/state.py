"""A tree of tensors and plain values as one safetensors file with a JSON header, and back: never pickle."""

from __future__ import annotations

import errno
import glob
import json
import os
import stat
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairweight.errors import BadCheckpoint, BadInput, NoSpace
from fairweight.types import map_tensors


def flatten(tree: Any) -> tuple[dict[str, Tensor], Any]:
    """Tensors by key, and the tree with each tensor replaced by its key."""
    tensors: dict[str, Tensor] = {}

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            tensors[path] = value
            return {"tensor": path}
        if isinstance(value, dict):
            # as pairs, because an optimizer's keys are numbers and JSON's are not
            return {"dict": [[key, walk(item, f"{path}/{key}")] for key, item in value.items()]}
        if isinstance(value, list | tuple):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [walk(item, f"{path}/{k}") for k, item in enumerate(value)]}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise BadInput(
            f"{path} holds a {type(value).__name__}, which cannot be saved; keep tensors and plain values there."
        )

    return tensors, walk(tree, "")


def unflatten(tensors: dict[str, Tensor], skeleton: Any) -> Any:
    """Build the tree again."""
    if not isinstance(skeleton, dict):
        return skeleton
    ((kind, value),) = skeleton.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        return {key: unflatten(tensors, item) for key, item in value}
    items = [unflatten(tensors, item) for item in value]
    return items if kind == "list" else tuple(items)


def move(tree: Any, device: torch.device | str) -> Any:
    """Move the tree's tensors to a device."""
    return map_tensors(tree, lambda t: t.to(device))


def cloned(tree: Any) -> Any:
    """Copy the tree with its tensors."""
    return map_tensors(tree, lambda t: t.detach().clone())


class Copied(NamedTuple):
    """A tree as it stood at one moment, in memory of its own."""

    tensors: dict[str, Tensor]
    skeleton: Any

    @property
    def bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.tensors.values())


def copied(tree: Any) -> Copied:
    """Copy the tree to the memory of the CPU; later changes to it do not show."""
    tensors, skeleton = flatten(tree)
    copies = {key: _on_cpu(t.detach()) for key, t in tensors.items()}
    for device in {t.device for t in tensors.values() if t.is_cuda}:  # not only the current one
        torch.cuda.synchronize(device)  # once for all copies: they were not waited for
    return Copied(copies, skeleton)


def _on_cpu(tensor: Tensor) -> Tensor:
    if not tensor.is_cuda:
        return tensor.to("cpu", copy=True).contiguous()
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return pinned.copy_(tensor, non_blocking=True)


def save(tree: Any, path: Path) -> None:
    """Write the tree so that a reader sees the old file or the new one, whole, whenever the writer is killed."""
    write(copied(tree), path)


def write(tree: Copied, path: Path) -> None:
    """Write a copied tree, whole or not at all."""
    from safetensors.torch import save as to_bytes

    skeleton = json.dumps(tree.skeleton)
    # One entry: safetensors writes several in an order of chance, and equal trees are to be equal files.
    metadata = {"tree": f"{_checksum(skeleton, tree.tensors)} {skeleton}"}
    try:
        write_atomically(path, to_bytes(tree.tensors, metadata=metadata))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise NoSpace(
            f"{path} cannot be written ({error}); what was there before still is. Make room, then resume the run."
        ) from error


def load(path: Path) -> Any:
    """Read a tree."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
        old = "crc32" in metadata  # a version that wrote two entries
        parts = [metadata["crc32"], metadata["tree"]] if old else metadata["tree"].split(" ", 1)
        if parts[0] != _checksum(parts[1], tensors):
            raise ValueError("its content is not what was written")
        return unflatten(tensors, json.loads(parts[1]))
    except (SafetensorError, KeyError, IndexError, TypeError, ValueError, RecursionError, OSError) as error:
        raise BadCheckpoint(f"{path} cannot be read ({error}); delete it and start the run again.") from error


def _checksum(skeleton: str, tensors: dict[str, Tensor]) -> str:
    checksum = zlib.crc32(skeleton.encode())
    for key, tensor in sorted(tensors.items()):
        checksum = zlib.crc32(f"{key} {tensor.dtype} {tuple(tensor.shape)}".encode(), checksum)
        checksum = zlib.crc32(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data, checksum)
    return str(checksum)


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file, flush it, then rename it over the path; only a regular file or nothing is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    clear(path, dead=True)
    temporary = path.with_name(f"{_prefix(path)}{os.getpid()}.part")
    temporary.unlink(missing_ok=True)  # of a process that had our number; "x" follows no link that takes its place
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _flush_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _refuse_irregular(path: Path) -> None:
    kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    with suppress(FileNotFoundError):
        kind = stat.S_IFMT(path.lstat().st_mode)
        if kind != stat.S_IFREG:
            what = kinds.get(kind, "a device")
            raise BadInput(f"{path} is {what}, and only a regular file is ever replaced; name another file.")


def _flush_folder(folder: Path) -> None:
    """Flush the folder: a rename is on the disk when its folder is."""
    with suppress(OSError):  # some file systems have no folders to flush
        entry = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)


def clear(path: Path, *, dead: bool = False) -> None:
    """Delete what killed writers (dead: that are no more) left beside this file; refuse one that is no regular file."""
    _refuse_irregular(path)
    for leftover in path.parent.glob(f"{glob.escape(_prefix(path))}*.part"):
        process = leftover.name[len(_prefix(path)) : -len(".part")]
        if process.isdecimal() and not (dead and is_alive(int(process))):
            leftover.unlink(missing_ok=True)


def _prefix(path: Path) -> str:
    return f".{path.name[:40]}."  # a long name would leave no room for the ending


def is_alive(process: int) -> bool:
    """True if there is such a process on this machine, or nobody can tell."""
    if os.name == "nt":
        return True  # there the question itself would end it
    try:
        os.kill(process, 0)
    except (OSError, OverflowError) as error:
        return not isinstance(error, ProcessLookupError)  # else somebody else's, or no process's number
    return True
