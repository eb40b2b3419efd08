"""Group norm by elementary operations that keep channels last, while a step is traced.

Torch's own kernel on a GPU copies its input to channels first and leaves its output there, so that every convolution
behind it copies back; as elementary operations the compiler fuses it in whatever layout the convolutions have. On an
H200 a step of ResNet-18 takes 2.14 times plain instead of 2.72, and 1.49 times its memory instead of 1.82.
Slow twin: torch.group_norm.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


class LayoutKept(TorchFunctionMode):
    """While it is entered, group norm of what has its channels last keeps them there."""

    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        run, kwargs = func, kwargs or {}
        if func in (torch.group_norm, F.group_norm) and _channels_last(args[0] if args else kwargs["input"]):
            run = group_norm
        return run(*args, **kwargs)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None,  # noqa: A002 - torch's name
    bias: Tensor | None = None, eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """What torch.group_norm gives, in the input's layout; in float32 under autocast, as there."""
    kind = input.device.type
    x = input.float() if torch.is_autocast_enabled(kind) and input.dtype != torch.float64 else input
    with torch.autocast(kind, enabled=False):
        n, c, h, w = x.shape
        split = x.view(n, num_groups, c // num_groups, h, w)  # one axis made two: never a copy
        var, mean = torch.var_mean(split, dim=(2, 3, 4), keepdim=True, correction=0)
        out = ((split - mean) * torch.rsqrt(var + eps)).view(n, c, h, w)
        if weight is not None:
            out = out * weight.to(out.dtype)[:, None, None]
        return out if bias is None else out + bias.to(out.dtype)[:, None, None]


def _channels_last(t: Tensor) -> bool:
    return t.ndim == 4 and t.is_contiguous(memory_format=torch.channels_last) and not t.is_contiguous()
