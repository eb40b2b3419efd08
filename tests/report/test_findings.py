from dataclasses import replace

import numpy as np
import pytest
from tests import audits

from fairweight.metrics import group_table
from fairweight.report import findings


def kinds(audit):
    return [finding.kind for finding in findings(audit)]


def one(audit, kind):
    found = [finding for finding in findings(audit) if finding.kind == kind]
    assert len(found) == 1, [f.sentence for f in found]
    return found[0]


def test_a_gap_names_its_groups_its_number_and_its_interval():
    found = one(audits.audit(audits.table([0.6, 0.9], n=2_000)), "gap")
    assert found.level == "act"
    assert found.numbers["tprd"] == pytest.approx(0.3)
    low, high = found.numbers["low"], found.numbers["high"]
    assert low < 0.3 < high
    assert "60.0 % for g0 and 90.0 % for g1: a gap (TPRD) of 30.0 points" in found.sentence
    assert f"[{100 * low:.1f}, {100 * high:.1f}]" in found.sentence


def test_groups_that_are_numbers_are_called_groups():
    found = one(audits.audit(audits.table([0.6, 0.9], n=2_000, group_names=["1", "2"])), "gap")
    assert "60.0 % for group 1 and 90.0 % for group 2" in found.sentence


def test_a_gap_that_sampling_explains_is_no_finding_to_act_on():
    found = one(audits.audit(audits.table([0.8, 0.82], n=200)), "no gap beyond chance")
    assert found.level == "good"
    assert found.numbers["tprd"] == pytest.approx(0.02)
    few = one(audits.audit(audits.table([0.6, 0.9], n=20)), "no gap beyond chance")
    assert few.level == "look", "30 points are not good because few samples cannot tell them from chance"


def test_a_gap_by_label_and_group_names_the_label():
    labels = [0] * 200 + [1] * 200 + [2] * 200
    groups = ([0] * 100 + [1] * 100) * 3
    predictions = list(labels)
    predictions[200:250] = [0] * 50  # half of label 1 in group 0 are missed
    found = one(audits.audit(group_table(labels, predictions, groups, group_names=["F", "M"])), "gap")
    assert "of label 1 is 50.0 % for F and 100.0 % for M" in found.sentence


def test_one_group_cannot_be_compared():
    found = one(audits.audit(group_table([0, 1, 1, 0], [0, 1, 0, 0], ["a"] * 4)), "gap")
    assert "cannot be compared" in found.sentence
    assert "behind" not in found.action  # nobody knows who is
    assert found.numbers["tprd"] is None


def test_small_groups_are_named_with_their_size_the_smallest_first():
    sizes = [2_000, 20, 8, 12, 16]
    found = [f for f in findings(audits.audit(audits.table([0.8] * 5, n=sizes))) if f.kind == "small group"]
    assert [f.numbers.get("n") for f in found] == [4, 6, 8, None]
    assert "Group g2 has 4 samples of the positive label" in found[0].sentence
    assert "1 more group has fewer than 30 such samples: g1" in found[3].sentence
    one_left = [f for f in findings(audits.audit(audits.table([0.8] * 2, n=[2_000, 2]))) if f.kind == "small group"]
    assert "Group g1 has 1 sample of the positive label: its" in one_left[0].sentence
    assert "small group" not in kinds(audits.audit(audits.table([0.8] * 5, n=2_000)))


def test_merging_is_advised_where_it_can_be_done():
    def actions(groups, **more):
        made = audits.audit(audits.table([0.8] * groups, n=20), **more)
        return {f.action for f in findings(made) if f.kind == "small group"}

    trained = audits.trained(audits.weights())
    assert actions(2, trained=trained) == {"collect more test samples of it."}  # nothing is left to compare
    assert actions(3) == {"collect more samples of it."}  # predictions have no such flag
    floor = "train with --small-groups merge and a larger --floor"  # the floor alone lets a group pass as it is
    assert actions(3, trained=trained) == {f"collect more test samples of it, or merge small groups: {floor}."}


def test_a_wide_interval_is_said_with_its_width():
    found = one(audits.audit(audits.table([0.5, 0.5], n=[4_000, 120])), "wide interval")
    assert found.numbers["n"] == 60
    assert found.numbers["width"] > 0.2
    assert "wide interval" not in kinds(audits.audit(audits.table([0.5, 0.5], n=8_000)))
    assert "1 more is wider" in one(audits.audit(audits.table([0.5, 0.5], n=[120, 140])), "wide interval").sentence
    assert "2 more are wider" in one(audits.audit(audits.table([0.5] * 3, n=[120] * 3)), "wide interval").sentence


def test_label_skew_between_groups_of_train():
    frame = audits.weights(2_000)
    women = (frame["group"] == "F").to_numpy()
    skewed = frame.assign(label=frame["label"].cat.rename_categories({}).where(~women, "no"))
    found = one(audits.audit(trained=audits.trained(skewed)), "label skew")
    assert found.numbers["difference"] > 0.4
    assert "of F" in found.sentence
    assert "in train" in found.sentence
    assert "label skew" not in kinds(audits.audit(trained=audits.trained(frame)))


def test_samples_without_a_group_have_no_part_in_label_skew():
    frame = audits.weights(2_000)
    unknown = frame["label"].eq("yes") & (frame["row"] % 2 == 0)  # all of one label
    made = audits.trained(frame.assign(group=frame["group"].where(~unknown)))
    assert "label skew" not in kinds(audits.audit(trained=made))


def test_label_skew_of_predictions_alone_is_of_the_data():
    labels = [1] * 90 + [0] * 10 + [1] * 10 + [0] * 90
    found = one(audits.audit(group_table(labels, labels, ["a"] * 100 + ["b"] * 100)), "label skew")
    assert found.numbers["difference"] == pytest.approx(0.8)
    assert "in the data" in found.sentence


@pytest.mark.parametrize(
    ("std", "size", "kind"), [(0.001, 0.99, "no effect"), (3.0, 0.02, "collapse"), (0.5, 0.8, "effect")]
)
def test_whether_the_weights_had_an_effect(std, size, kind):
    made = audits.trained(audits.weights())
    made = replace(made, scores={"std": std, "min": -1.0, "max": 1.0, "effective_size": size})
    found = one(audits.audit(trained=made), kind)
    assert found.numbers == {"score_std": std, "effective_size": size}
    assert found.level == ("note" if kind == "effect" else "act")


def test_a_method_without_scores_says_so_and_moves_nothing():
    found = kinds(audits.audit(trained=audits.trained(audits.weights(scores=False), method="Uniform")))
    assert "no scores" in found
    assert "weight" not in found


def test_weight_is_told_by_cell_where_a_groups_mean_would_mislead():
    frame = audits.weights(2_000)
    women, yes = ((frame[name] == value).to_numpy() for name, value in (("group", "F"), ("label", "yes")))
    weight = np.where(women & yes, 1.6, np.where(women, 0.4, 1.0))  # the mean of F falls, and its positives rise
    frame = frame.assign(weight=weight / weight.mean())
    found = one(audits.audit(trained=audits.trained(frame)), "weight")
    assert found.numbers["highest"] == pytest.approx(frame["weight"][women & yes].mean(), abs=1e-6)
    assert found.numbers["lowest"] == pytest.approx(frame["weight"][women & ~yes].mean(), abs=1e-6)
    assert f"cell yes · F ({int((women & yes).sum())})" in found.sentence
    assert "cell no · F" in found.sentence
    assert "group" not in found.sentence


def test_wrong_labels_are_counted_and_measured_where_the_truth_is_known():
    frame = audits.weights(1_000, wrong=0.2)
    wrong = int((frame["label"].astype(str) != frame["true_label"].astype(str)).sum())
    made = audits.audit(trained=audits.trained(frame))
    assert one(made, "wrong labels").numbers["n"] == wrong
    found = one(made, "wrong labels found")
    assert found.numbers == {"wrong": wrong, "auc": 1.0, "precision": 1.0}
    clean = audits.audit(trained=audits.trained(audits.weights(1_000)))
    assert one(clean, "wrong labels").numbers["n"] == 0
    assert "wrong labels found" not in kinds(clean)


def test_a_model_that_prefers_one_label_calls_no_label_wrong():
    labels, groups = [0, 0, 0, 1] * 100, ["a", "b"] * 200
    table = group_table(labels, [0] * 400, groups)
    some = audits.weights(1_000, wrong=0.2)
    blind = audits.trained(some.drop(columns="true_label"))
    found = one(audits.audit(table, trained=blind), "wrong labels")
    assert found.sentence.startswith("Which labels look wrong cannot be told")
    assert one(audits.audit(trained=blind), "wrong labels").numbers["n"] > 0
    assert one(audits.audit(table, trained=audits.trained(some)), "wrong labels").numbers["n"] > 0  # the truth is known


def test_beside_the_baseline_better_worse_and_no_different():
    plain, even = audits.table([0.6, 0.9], n=2_000), audits.table([0.88, 0.9], n=2_000)
    some = audits.trained(audits.weights())
    better = one(audits.audit(even, base=plain, trained=some), "beside the baseline")
    assert better.level == "good"
    assert "falls from 30.0 to 2.0 points" in better.sentence
    assert better.numbers["tprd_after"] == pytest.approx(0.02)
    worse = one(audits.audit(plain, base=even, trained=some), "beside the baseline")
    assert worse.level == "act"
    same = one(audits.audit(even, base=even, trained=some), "beside the baseline")
    assert same.level == "look"
    assert "chance in the test rows can explain" in same.sentence
    alone = one(audits.audit(even, trained=some), "no baseline")
    assert "--baseline" in alone.sentence


def test_levelling_down_is_called_by_its_name():
    plain, levelled = audits.table([0.6, 0.9], n=4_000), audits.table([0.6, 0.65], n=4_000)
    some = audits.trained(audits.weights())
    found = one(audits.audit(levelled, base=plain, trained=some), "levelling down")
    assert found.numbers["best_fell"] == pytest.approx(0.25)
    lifted = audits.audit(audits.table([0.88, 0.9], n=4_000), base=plain, trained=some)
    assert "levelling down" not in kinds(lifted)


def test_a_moved_threshold_is_named_as_another_reason():
    plain, shifted = audits.table([0.6, 0.9], n=4_000), audits.table([0.9, 0.97], n=4_000)
    some = audits.trained(audits.weights())
    found = one(audits.audit(shifted, base=plain, trained=some), "all rates moved")
    assert found.numbers["least"] == pytest.approx(0.035)


def test_samples_without_a_group_are_counted():
    table = group_table([0, 1] * 50, [0, 1] * 50, ["a", "b"] * 48 + [None] * 4, missing="ignore")
    assert one(audits.audit(table), "missing groups").numbers["n"] == 4


def test_warnings_of_the_data_and_of_the_run_are_passed_on_once():
    made = replace(
        audits.trained(audits.weights()), warnings=("weak signal: too few exemplars.", "collapse: said above.")
    )
    found = findings(audits.audit(trained=made, notes=("Warning: a column leaks.", "Rows: 10 train.")))
    assert [f.sentence for f in found if f.kind == "data"] == ["A column leaks."]
    assert [f.kind for f in found if f.kind in ("weak signal", "collapse")] == ["weak signal"]


def test_every_finding_but_words_has_a_number_and_the_pressing_come_first():
    plain = audits.table([0.6, 0.9], n=2_000)
    made = audits.audit(plain, trained=audits.trained(audits.weights(wrong=0.1)))
    found = findings(made)
    levels = [f.level for f in found]
    assert levels == sorted(levels, key=("act", "good", "look", "note").index)
    assert all(f.action.endswith(".") for f in found)
    assert all(f.numbers for f in found if f.kind not in ("no baseline", "no scores"))
    assert all(any(character.isdigit() for character in f.sentence) for f in found if f.numbers)
