"""Runs many into a pool until it is killed: python run_many.py POOL EPOCHS."""

import sys

from fairweight.runs.pool import run_all
from fairweight.runs.pool._job import Watcher
from fairweight.runs.spec import Spec


class Lines(Watcher):
    def on_epoch(self, fingerprint, epoch, epochs):
        print("epoch", fingerprint, epoch, flush=True)

    def on_outcome(self, outcome):
        print("over", outcome.spec.seed, outcome.reused, flush=True)


if __name__ == "__main__":
    data = {"split": {"test": 0.3, "validation": 0.0}, "exemplar": {"source": "train", "size": 4}}
    base = Spec(
        "digits", data=data, network={"name": "mlp", "hidden": [16]}, method="uniform", epochs=int(sys.argv[2]),
        batch_size=64, per_cell=2,
    )  # fmt: skip
    run_all([base.with_(seed=seed) for seed in range(2)], sys.argv[1], jobs=2, watcher=Lines())
