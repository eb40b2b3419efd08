"""Images: decoded once to uint8 [N, C, H, W], held in memory or streamed from a memory-mapped file."""

from fairweight.data.image.preprocessing import ImagePreprocessing
from fairweight.data.image.rows import ImageRows
from fairweight.data.image.stream import Streamed

__all__ = ["ImagePreprocessing", "ImageRows", "Streamed"]
