"""The estimator where decisions may know the group, in a Pipeline, and with columns side by side."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.cli.test_train_judged import crowd

from fairweight import FairweightClassifier, group_table
from fairweight.errors import BadInput


@pytest.fixture(scope="module")
def rows():
    frame = crowd(1500, 1)
    return frame.drop(columns=["income", "sex", "id"]), frame["income"], frame["sex"]


@pytest.fixture(scope="module")
def by_group(rows):
    inputs, income, sex = rows
    inputs = inputs.drop(columns="club")  # nothing else tells the groups apart, so weights have no grip
    made = FairweightClassifier(
        learner="linear", groups_at_prediction=True, budget=1, pos_label="high", random_state=0
    )  # fmt: skip
    return made.fit(inputs, income, sensitive_features=sex)


def test_thresholds_by_group_need_the_group_at_prediction(rows, by_group):
    inputs, income, sex = rows[0].drop(columns="club"), rows[1], rows[2]
    assert by_group.chosen_.startswith("thresholds")
    with pytest.raises(BadInput, match="sensitive_features"):
        by_group.predict(inputs)
    said = by_group.predict(inputs, sensitive_features=sex)
    chances = by_group.predict_proba(inputs, sensitive_features=sex)
    assert (by_group.classes_[chances.argmax(axis=1)] == said).all()
    other = by_group.predict(inputs, sensitive_features=np.where(sex == "F", "M", "F"))
    assert (other != said).mean() > 0.05
    assert group_table(income, said, sex, positive="high").tprd < 0.1


def test_positive_label_and_order_of_probabilities(rows, by_group):
    assert by_group.classes_.tolist() == ["high", "low"]
    chances = by_group.predict_proba(rows[0].drop(columns="club"), sensitive_features=rows[2])
    share = (rows[1] == "high").mean()
    assert chances[:, 0].mean() == pytest.approx(share, abs=0.1)


def test_the_call_in_a_pipeline_that_the_documentation_shows(rows):
    inputs, income, sex = rows
    numbers = inputs.select_dtypes("number").fillna(0).to_numpy(dtype=float)
    made = make_pipeline(StandardScaler(), FairweightClassifier(learner="linear", random_state=0))
    made.fit(numbers, income, fairweightclassifier__sensitive_features=sex)
    assert made.score(numbers, income) > 0.5
    assert made[-1].groups_ == ("F", "M")


def test_columns_side_by_side(rows):
    inputs, income, sex = rows
    both = np.stack([sex, np.where(inputs["age"] > 40, "older", "younger")], axis=1)
    made = FairweightClassifier(learner="linear", each=True, budget=3, random_state=0)
    made.fit(inputs, income, sensitive_features=both)
    assert len(made.search_.goal.criterion.views) == 2
    assert len(made.groups_) == 4
