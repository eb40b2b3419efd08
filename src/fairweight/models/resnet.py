"""ResNet-18 with the stem for small images or the one for large images."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from fairweight.errors import UnknownName


class ResNet18(nn.Module):
    """ResNet-18; stem "small": 3x3 without pooling, for 32 pixels; "large": 7x7 and pooling, for 128 and more."""

    def __init__(
        self, classes: int, stem: Literal["small", "large"] = "small", width: int = 64, channels: int = 3
    ) -> None:
        super().__init__()
        if stem not in ("small", "large"):
            raise UnknownName(f"ResNet18(stem={stem!r}): choose 'small' (32 pixels) or 'large' (128 and more).")
        if stem == "small":
            first: list[nn.Module] = [nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        else:
            first = [
                nn.Conv2d(channels, width, 7, 2, 3, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.MaxPool2d(3, 2, 1),
            ]
        self.stem = nn.Sequential(*first)
        stages: list[nn.Module] = []
        before = width
        for stage in range(4):
            after = width * 2**stage
            stages += [_Block(before, after, 1 if stage == 0 else 2), _Block(after, after, 1)]
            before = after
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(before, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""  # [B, K] from [B, C, H, W]
        features = self.stages(self.stem(x)).mean(dim=(2, 3))  # [B, 8 width]
        logits: Tensor = self.head(features)
        return logits


class _Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU()
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.skip = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        out: Tensor = self.relu(self.norm2(self.conv2(y)) + self.skip(x))
        return out
