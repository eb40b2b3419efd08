"""A run's name follows from all that determines it."""

from dataclasses import fields

from fairweight.runs.run import run
from fairweight.runs.spec import LATER, Spec


def test_a_field_that_came_later_leaves_the_names_of_earlier_runs():
    spec = Spec("digits", "label", epochs=3)
    assert spec.fingerprint == "e21fe1889fb0"
    assert not set(LATER) & set(spec.to_dict())
    assert set(LATER) < {field.name for field in fields(Spec)}


def test_a_field_that_came_later_counts_where_it_is_set():
    for spec in (
        Spec("digits", augment_exemplars=True),
        Spec("digits", exemplar_batch=64),
        Spec("digits", ema_decay=0.99),
    ):
        assert spec.fingerprint != Spec("digits").fingerprint
        assert Spec.from_dict(spec.to_dict()) == spec
    assert Spec.from_dict(Spec("digits").to_dict()) == Spec("digits")


def test_the_decay_of_the_averages_reaches_each_samples_history(tiny, tmp_path):
    usual, last = (
        run(tiny.with_(ema_decay=decay), tmp_path / str(decay)).folder.read_weights() for decay in (0.9, 0.0)
    )
    assert usual["visits"].equals(last["visits"])
    assert usual["mean_margin"].equals(last["mean_margin"])  # the same training
    assert usual["ema_loss"].sub(last["ema_loss"]).abs().max() > 0.01
