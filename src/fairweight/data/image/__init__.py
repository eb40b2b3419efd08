"""Images: decoded once to uint8 [N, C, H, W], held in memory or streamed from a memory-mapped file."""
