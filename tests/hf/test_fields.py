"""Every field of GenerationConfig is honoured, neutral or refused, and the page that says so is complete."""

from pathlib import Path

import pytest
from transformers import GenerationConfig

from specproof import SpecproofError
from specproof.hf import fields

PAGE = Path(__file__).parents[2] / "docs" / "transformers.md"
TABLES = (fields.HONOURED, set(fields.NEUTRAL), set(fields.REFUSED))


def test_every_field_is_in_exactly_one_table():
    """Fails under a version of transformers that knows another field: decide which table it belongs to."""
    assert sorted(name for table in TABLES for name in table) == sorted(vars(GenerationConfig()))


def test_every_field_is_on_the_page():
    missing = [name for table in TABLES for name in table if f"`{name}`" not in PAGE.read_text()]
    assert missing in ([], ["_from_model_config"])


def test_defaults_pass():
    fields.check_fields(GenerationConfig())
    fields.check_fields(GenerationConfig(**GenerationConfig._get_default_generation_params()))


@pytest.mark.parametrize("name", sorted(fields.REFUSED))
def test_refused_fields_are_refused_by_name_and_value(name):
    config = GenerationConfig()
    for value in fields.REFUSED[name][0]:
        setattr(config, name, value)
        fields.check_fields(config)
    setattr(config, name, 0.25)
    with pytest.raises(SpecproofError, match=rf"^{name}=0.25 [^\n]*: [^\n]*$"):
        fields.check_fields(config)


@pytest.mark.parametrize("name", sorted([*fields.NEUTRAL, *fields.HONOURED]))
def test_other_fields_pass(name):
    config = GenerationConfig()
    setattr(config, name, 3)
    fields.check_fields(config)


def test_a_field_of_a_newer_transformers_is_refused_once_it_is_set(monkeypatch):
    class Newer(GenerationConfig):
        def __init__(self, **values):
            super().__init__(**values)
            self.surprise = None

    monkeypatch.setattr(fields, "GenerationConfig", Newer)
    config = Newer()
    fields.check_fields(config)
    config.surprise = 1
    with pytest.raises(SpecproofError, match="surprise=1: specproof does not know this field"):
        fields.check_fields(config)
