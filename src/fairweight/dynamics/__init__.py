"""Per-sample history of training: `on_step` and `on_epoch` take it in, `table` and `paths` give it out."""

from fairweight.dynamics.history import PATH_NUMBERS, PENDING_SAMPLES, Dynamics

__all__ = ["PATH_NUMBERS", "PENDING_SAMPLES", "Dynamics"]
