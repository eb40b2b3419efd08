"""Spec: the value that determines a run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import PurePath
from typing import Any

from fairweight.constraints import SEED, above, between, either, whole
from fairweight.errors import BadInput, option

# Raised when the same Spec would train differently, so that no cached run is taken for a new one.
GENERATION = 1
AUTOCAST = ("bfloat16", "float16")  # the names that torch is asked for; a run folder may name nothing else
# Fields that came later stand in a Spec's values only where they are set: runs from before keep their names.
LATER = {"augment_exemplars": False, "exemplar_batch": 0, "ema_decay": 0.9, "weights": {}, "judge": {}, "start": {}}


_ALLOWED = {
    "epochs": whole(1),
    "batch_size": whole(1),
    "lr": above(0),
    "weight_decay": between(0),
    "seed": SEED,
    "data_seed": either(SEED),
}


@dataclass(frozen=True)
class Spec:
    """Everything that a run's result depends on, as plain values."""

    source: str
    label: str | None = None
    group: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)  # options of data.load, as plain values
    network: Mapping[str, Any] = field(default_factory=dict)  # {"name": "mlp", ...}
    method: str = "forml"
    method_options: Mapping[str, Any] = field(default_factory=dict)
    optimizer: str = "adam"
    lr: float = 1e-3
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 0.0
    # {"name": "cosine"}, also with "warm_up": 2, epochs; or {"name": "step", "at": [60, 120], "factor": 0.1}
    schedule: Mapping[str, Any] = field(default_factory=dict)
    epochs: int = 20
    batch_size: int = 128
    per_cell: int = 10
    exemplar_batch: int = 0  # exemplars in a step at least; those that per_cell leaves open are drawn from all alike
    clip_norm: float | None = None
    autocast: str | None = None  # "bfloat16"
    augment: bool = False
    augment_exemplars: bool = False
    ema_decay: float = 0.9  # of what is kept of each sample's losses: dynamics
    early_stopping: Mapping[str, Any] = field(default_factory=dict)  # {"metric": "loss", "patience": 5}
    seed: int = 0
    data_seed: int | None = None  # of splits and corruptions; None: the seed
    search: Mapping[str, Any] = field(default_factory=dict)  # many trainings in one run: run_search.py
    rows: Mapping[str, Any] = field(default_factory=dict)  # which rows stay: other_runs.py
    weights: Mapping[str, Any] = field(default_factory=dict)  # of other runs: other_runs.py
    judge: Mapping[str, Any] = field(default_factory=dict)  # criterion, bound, budget ...: the best of many is kept
    start: Mapping[str, Any] = field(default_factory=dict)  # the run to begin from: other_runs.py

    def __post_init__(self) -> None:
        for name, allowed in _ALLOWED.items():
            if not allowed.allows(value := getattr(self, name)):
                flag = "seed" if name == "data_seed" else name
                raise BadInput(f"{option(flag, value)}; {allowed}.")
        if self.autocast not in (None, *AUTOCAST):
            raise BadInput(f"autocast={self.autocast!r}; choose from: {', '.join(AUTOCAST)}, or leave it out.")
        if self.weights and self.method != "given":
            raise BadInput(f"weights of other runs are for the method given, and this is {self.method!r}.")

    def with_(self, **changes: Any) -> Spec:
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(json.dumps(asdict(self), default=dict))
        return {name: value for name, value in values.items() if name not in LATER or value != LATER[name]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Spec:
        if strange := sorted(set(values) - {f.name for f in fields(cls)}):
            raise BadInput(f"{strange[0]!r} is no field of a run; it was written by another version of fairweight.")
        from fairweight.runs.schema import SPEC, problem

        if found := problem(values, SPEC):
            raise BadInput(f"a run's settings are not as a run writes them: {found}; train that run again.")
        return cls(**values)

    @property
    def fingerprint(self) -> str:
        """Short name that two Specs share if and only if they are equal."""
        text = json.dumps({"generation": GENERATION, **self.to_dict()}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def drawing_seed(self) -> int:
        """Seed of splits and corruptions."""
        return self.seed if self.data_seed is None else self.data_seed

    @property
    def title(self) -> str:
        """Name of the run beside others, for people."""
        return "refit" if self.weights else "judged" if self.judge else self.method

    @property
    def folder_name(self) -> str:
        """Name of the run's folder among others: readable, and its own."""
        source = re.sub(r"[^\w.-]+", "-", PurePath(self.source).stem)[:40].strip("-") or "data"
        return f"{source}_{'judged' if self.judge else self.method}_seed{self.seed}_{self.fingerprint}"
