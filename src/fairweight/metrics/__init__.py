"""Any metric by group, with n and intervals; TPRD, maxFNR and the other gaps are views of one table.

    table = group_table(labels, predictions, groups)
    table.tprd, table.max_fnr, table.accuracy       # plain floats
    table.estimate("tprd")                          # Estimate(value, low, high, n)
    table.estimate("tpr", group="F")
    print(table); table.to_pandas(); table.to_dict()

Rates are fractions. Whatever cannot be estimated is NaN and takes no part in a gap; a gap needs two groups.

| given | rows | a rate of a row |
|---|---|---|
| two labels, and groups | groups | of the positive label, in that group |
| more labels, and groups | groups, and cells (label, group) | of each label against the others, in that group |
| labels alone | labels | of that label against the others; its accuracy is its TPR |

tpr: share of the label's samples predicted as it. fnr: 1 - tpr. fpr: share of the other samples predicted as it.
selection_rate: share of all samples predicted as it. A group's `tpr` over several labels is the mean over labels.

| number | is |
|---|---|
| tprd, fpr_gap, selection_rate_gap, <metric>_gap | largest minus smallest over the groups (the largest over labels) |
| max_fnr, worst_group_accuracy, <metric>_worst | the worst of any group (and label) |
| equalised_odds_gap | the larger of tprd and fpr_gap; NaN where either is |
| tpr_std, <metric>_std | standard deviation over the groups (dividing by their number) |
| tpr_worst_tenth, <metric>_worst_tenth | mean of the worst tenth of the groups, rounded up |
| <metric>_ratio | smallest over largest over the groups |

`noise_floor` says what truly equal groups of the same sizes would show; `compare` says whether the tables of two models
differ by more than resampling explains; `Intervals` says how intervals are made.
"""

from fairweight.metrics.compare import Difference, compare
from fairweight.metrics.group_table import GroupTable, group_table
from fairweight.metrics.intervals import Estimate, Intervals, NoiseFloor, noise_floor

__all__ = [
    "Difference",
    "Estimate",
    "GroupTable",
    "Intervals",
    "NoiseFloor",
    "compare",
    "group_table",
    "noise_floor",
]
