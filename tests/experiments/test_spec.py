"""A run's name follows from all that determines it."""

from dataclasses import fields

from fairweight.experiments.spec import LATER, Spec


def test_a_field_that_came_later_leaves_the_names_of_earlier_runs():
    spec = Spec("digits", "label", epochs=3)
    assert spec.fingerprint == "e21fe1889fb0"
    assert not set(LATER) & set(spec.to_dict())
    assert set(LATER) < {field.name for field in fields(Spec)}


def test_a_field_that_came_later_counts_where_it_is_set():
    spec = Spec("digits", augment_exemplars=True)
    assert spec.fingerprint != Spec("digits").fingerprint
    assert Spec.from_dict(spec.to_dict()) == spec
    assert Spec.from_dict(Spec("digits").to_dict()) == Spec("digits")
