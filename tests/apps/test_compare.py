"""Methods under one protocol."""

import json

import pytest
from tests.docs.generators import generator

from fairweight.apps.compare import Protocol, compare, costs, prepare, smaller, text_of, verdict_on
from fairweight.apps.judge import Goal
from fairweight.errors import BadInput, UnknownName
from fairweight.metrics.criterion import criterion
from fairweight.report.front import verdict_words, without_places
from fairweight.runs.spec_data import dataset_for

DATA = {"limit": 500, "split": {"test": 0.3, "validation": 0.2}, "corruptions": ["one-class:label=2,fraction=0.2"]}


@pytest.fixture(scope="module")
def protocol():
    return Protocol("digits", data=DATA, training={"epochs": 3, "network": {"name": "mlp", "hidden": [16]}})


@pytest.fixture(scope="module")
def prepared(protocol):
    return prepare(protocol, ["forml", "proportion", "label-bias"])


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(scope="module")
def record(prepared, out):
    return compare(prepared, out, seeds=2, jobs=1)


def row_of(record, key):
    return next(row for row in record["rows"] if row["key"] == key)


def test_every_method_sees_the_same_rows_and_epochs(prepared):
    same = [spec for key, spec in prepared.specs.items() if key != "uniform-all"]
    fields = ("source", "data", "network", "optimizer", "lr", "epochs", "batch_size", "early_stopping", "data_seed")
    assert len({json.dumps([spec.to_dict()[name] for name in fields], sort_keys=True) for spec in same}) == 1
    assert same[0].early_stopping == {"metric": "loss", "patience": 3}
    first, second = (dataset_for(spec.with_(seed=4)) for spec in same[:2])
    for part in ("train", "exemplar", "validation", "test"):
        assert first.rows[part].tolist() == second.rows[part].tolist()


@pytest.mark.slow
def test_uniform_is_always_there_also_with_the_exemplars_in_train(prepared, record):
    assert list(prepared.specs) == ["uniform", "uniform-all", "forml", "label-bias"]
    plain, whole = (dataset_for(prepared.specs[key]) for key in ("uniform", "uniform-all"))
    assert set(plain.rows["train"].tolist()) | set(plain.rows["exemplar"].tolist()) == set(whole.rows["train"].tolist())
    assert plain.rows["test"].tolist() == whole.rows["test"].tolist()
    assert row_of(record, "uniform-all")["kind"] == "control"


def test_methods_without_what_they_need_are_left_out_with_the_reason(prepared, record):
    assert prepared.left_out.keys() == {"proportion"}
    assert "group" in prepared.left_out["proportion"]
    assert "Not run: proportion: it needs the group of each training sample" in text_of(record)


def test_means_paired_tests_and_costs(record):
    forml = row_of(record, "forml")
    values = [forml["seeds"][s]["accuracy"] - row_of(record, "uniform")["seeds"][s]["accuracy"] for s in ("0", "1")]
    assert forml["compared"]["uniform"]["accuracy"]["mean"] == pytest.approx(sum(values) / 2)
    assert forml["compared"]["uniform"]["accuracy"]["n"] == 2
    assert record["paired_test"] == "two-sided paired t-test over seeds"
    assert record["cost"]["uniform"] == 1.0
    ours, theirs = ([row_of(record, key)["seeds"][s]["seconds"] for s in "01"] for key in ("forml", "uniform"))
    assert record["cost"]["forml"] == pytest.approx((ours[0] / theirs[0] + ours[1] / theirs[1]) / 2)
    text = text_of(record)
    assert "× 1.0" in text
    assert "paired t-test" in text
    assert "the epoch with the best loss on validation counts" in " ".join(text.split())
    assert json.loads(json.dumps(record)) == record


def test_a_second_call_trains_nothing_anew(prepared, record, out):
    before = {path: path.stat().st_mtime_ns for path in out.rglob("metrics.json")}
    again = compare(prepared, out, seeds=2, jobs=1)
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("metrics.json")}
    assert [row["seeds"] for row in again["rows"]] == [row["seeds"] for row in record["rows"]]


def test_a_file_that_has_changed_is_trained_on_anew(tmp_path):
    draw = [f"{k % 7},{(k * k) % 11},{'yes' if k % 7 > 3 else 'no'},{'ab'[k % 2]}" for k in range(200)]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["x,z,label,side", *draw]) + "\n")
    protocol = Protocol(str(path), "label", "side", training={"epochs": 1})
    compare(prepare(protocol, ["uniform"]), tmp_path / "out", seeds=1, jobs=1)
    path.write_text("\n".join(["x,z,label,side", *draw[:180]]) + "\n")
    compare(prepare(protocol, ["uniform"]), tmp_path / "out", seeds=1, jobs=1)
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_all_methods_with_groups_at_hand(tmp_path):
    found = prepare(Protocol("synthetic", training={"epochs": 1}))
    assert found.left_out.keys() == {"given"}
    assert "fairweight refit" in found.left_out["given"]
    assert found.specs["moew"].search == {"name": "alpha", "rounds": 3, "per_round": 4}
    assert {"forml", "l2rw", "group-dro", "jtt", "focal", "proportion", "random"} <= found.specs.keys()


def test_one_split_for_all_seeds_where_asked(protocol):
    fixed = prepare(Protocol("digits", data=DATA, training=protocol.training, split_seed=7), ["uniform"])
    first, second = (dataset_for(fixed.specs["uniform"].with_(seed=seed)) for seed in (0, 1))
    assert first.rows["test"].tolist() == second.rows["test"].tolist()


def test_without_a_validation_part_the_last_epoch_counts():
    data = {"limit": 500, "split": {"test": 0.3, "validation": 0.0}}
    found = prepare(Protocol("digits", data=data, training={"epochs": 1}), ["uniform"])
    assert found.specs["uniform"].early_stopping == {}
    assert prepare(Protocol("digits", select="last"), ["uniform"]).specs["uniform"].early_stopping == {}


def test_unknown_words_are_refused():
    with pytest.raises(UnknownName, match="'magic' is not one of"):
        prepare(Protocol("digits"), ["magic"])
    with pytest.raises(BadInput, match="choose from: accuracy"):
        Protocol("digits", select="test_accuracy")


def test_the_command_of_a_record_says_nothing_of_places():
    words = (
        "fairweight compare mnist --out /home/me/x --corrupt one-class:label=2 --data-dir=/data --records r --seeds 5"
    )
    assert without_places(words) == "fairweight compare mnist --corrupt one-class:label=2 --seeds 5"


def test_the_methods_page_shows_the_record(record):
    text = generator("methods_page").methods_text([{**record, "cost": {**record["cost"], "forml": 3.26}}])
    forml, plain = row_of(record, "forml"), row_of(record, "uniform")
    (line,) = [line for line in text.splitlines() if line.startswith("| forml |")]
    assert line.startswith(f"| forml | 2 | {forml['means']['tprd']['mean']:.2f} ± ")
    apart = [forml["seeds"][s]["accuracy"] - plain["seeds"][s]["accuracy"] for s in ("0", "1")]
    reach = 12.706204736 * abs(apart[0] - apart[1]) / 2  # Student's t with one degree of freedom, times the error
    mean = sum(apart) / 2
    assert f"{mean:+.2f} [{mean - reach:+.2f}, {mean + reach:+.2f}] | 1 | 3.3 |" in line
    assert "Not run: proportion: it needs the group" in text
    assert record["command"] in text


def test_a_busy_moment_does_not_change_the_cost():
    plain = {str(seed): {"seconds": 2.0} for seed in range(5)}
    twice = {seed: {"seconds": 4.0} for seed in plain}
    plain["0"] = {"seconds": 20.0}  # the first run of all warms up
    rows = [{"key": "uniform", "seeds": plain}, {"key": "forml", "seeds": twice}]
    assert costs(rows) == {"uniform": 1.0, "forml": 2.0}
    assert costs(rows[1:]) == {}


@pytest.mark.parametrize(
    ("gap", "p", "accuracy", "bound", "word"),
    [
        (-3.0, 0.01, -0.2, None, "helps"),
        (-3.0, 0.20, -0.2, None, "no-effect"),
        (-3.0, 0.01, -0.9, None, "no-effect"),  # too dear
        (-3.0, 0.01, -0.4, None, "helps"),  # beyond the budget, which chance may explain
        (-3.0, 0.20, -0.4, None, "no-effect"),
        (-3.0, 0.20, -0.9, None, "worse"),
        (3.0, 0.01, 0.5, None, "worse"),
        (-3.0, 0.01, -5.0, 2.0, "helps"),  # a bound alone says nothing of accuracy
        (-3.0, 0.01, -5.0, 0.5, "no-effect"),
        (-3.0, 0.01, -5.0, 0.9, "helps"),
    ],
)
def test_the_verdict_on_a_row_is_the_rule_of_train_over_seeds(gap, p, accuracy, bound, word):
    seeds = {"standard_error": 0.1, "n": 5}
    found = {"tprd": {"mean": gap, "p": p}, "accuracy": {"mean": accuracy, "p": None, **seeds}}
    row = {"compared": {"uniform": found}, "means": {"tprd": {"mean": 1.0, **seeds}}}
    assert verdict_on(row, Goal(criterion("equal-opportunity"), bound=bound), "tprd") == word
    said = verdict_words({"verdict": word, "outside_limits": word == "no-effect" and smaller(row, "tprd")})
    other = "no clear effect" if p > 0.05 else "smaller gap, outside the budget or bound"
    assert said == (other if word == "no-effect" else word)
    alone = {**found, "accuracy": {"mean": accuracy, "p": None, "standard_error": None, "n": 1}}
    one = {**row, "compared": {"uniform": alone}}  # one seed tells nothing of a loss
    assert (verdict_on(one, Goal(criterion("equal-opportunity")), "tprd") == "worse") == (gap > 0)

    assert verdict_on({**row, "compared": {}}, Goal(criterion("equal-opportunity")), "tprd") is None
