"""A tree of tensors and plain values as one file of tensors with a JSON header, and back: never pickle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairweight.errors import BadCheckpoint, BadInput


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
    """The tree again."""
    if not isinstance(skeleton, dict):
        return skeleton
    ((kind, value),) = skeleton.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        return {key: unflatten(tensors, item) for key, item in value}
    items = [unflatten(tensors, item) for item in value]
    return items if kind == "list" else tuple(items)


def save(tree: Any, path: Path) -> None:
    """Write the tree so that a reader sees the old file or the new one, whole, whenever the writer is killed."""
    from safetensors.torch import save as to_bytes

    tensors, skeleton = flatten(tree)
    plain = {key: t.detach().to("cpu", copy=True).contiguous() for key, t in tensors.items()}
    write_atomically(path, to_bytes(plain, metadata={"tree": json.dumps(skeleton)}))


def load(path: Path) -> Any:
    """Read a tree."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            skeleton = json.loads((file.metadata() or {})["tree"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
        return unflatten(tensors, skeleton)
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise BadCheckpoint(f"{path} cannot be read ({error}); delete it and start the run again.") from error


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside, flush to the disk, then rename over."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def move(tree: Any, device: torch.device | str) -> Any:
    """The tree with its tensors on a device."""
    tensors, skeleton = flatten(tree)
    return unflatten({key: t.to(device) for key, t in tensors.items()}, skeleton)
