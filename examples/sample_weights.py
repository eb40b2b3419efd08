"""Learned weights in another trainer: gradient boosting on labels that were wrong for one group.

In the training labels, four of ten positives of group "b" were recorded as negatives. A few hundred samples were
checked by hand. FairweightClassifier learns from them what every training sample is worth, and scikit-learn's
gradient boosting takes those weights as sample_weight.

    python examples/sample_weights.py
"""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier

import fairweight as fw


def people(size: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, true labels and groups."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b"], size, p=[0.7, 0.3])
    labels = rng.integers(0, 2, size)
    features = rng.normal(size=(size, 6))
    features[:, 0] += 1.5 * labels
    features[:, 1] += 1.0 * labels * (groups == "b")
    features[:, 2] += 2.0 * (groups == "b")
    return features, labels, groups


def main() -> dict[str, fw.GroupTable]:
    features, truth, groups = people(4_000, seed=0)
    rng = np.random.default_rng(1)
    recorded = np.where((truth == 1) & (groups == "b") & (rng.random(len(truth)) < 0.4), 0, truth)
    checked = people(400, seed=2)
    test_features, test_labels, test_groups = people(4_000, seed=3)

    learner = fw.FairweightClassifier("forml", epochs=20, random_state=0)
    learner.fit(features, recorded, sensitive_features=groups, exemplar=checked)
    weights = learner.sample_weights_  # one per training sample, mean 1

    tables = {}
    for name, sample_weight in {"plain": None, "learned weights": weights}.items():
        boosted = GradientBoostingClassifier(random_state=0).fit(features, recorded, sample_weight=sample_weight)
        tables[name] = fw.group_table(test_labels, boosted.predict(test_features), test_groups)
        table = tables[name]
        print(f"{name:16s} accuracy {100 * table.accuracy:.1f}   TPRD {100 * table.tprd:.1f}")
    wrong = recorded != truth
    print(f"mean weight of wrong labels {weights[wrong].mean():.2f}, of right ones {weights[~wrong].mean():.2f}")
    return tables


if __name__ == "__main__":
    main()
