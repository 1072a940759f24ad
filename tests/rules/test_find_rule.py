"""Names of rules with numbers behind them, and what an engine may use."""

from fractions import Fraction as F

import pytest

from specproof.drafters.none import NoDrafter
from specproof.errors import SpecproofError
from specproof.rules import RULES, admit, choose_rule, find_rule, sound_rules


class Sampled(NoDrafter):
    drawn = "iid"


def test_a_plain_name_is_the_table_entry():
    assert all(find_rule(name) is rule for name, rule in RULES.items())


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("lenience:0.5", (F(1, 2),)),
        ("lenience:1/3", (F(1, 3),)),
        ("typical:0.1", (F(1, 10),)),
        ("typical:0.1,2", (F(1, 10), F(2))),
        ("mars:0.9,12", (F(9, 10), F(12))),
        ("threshold:1,0.5", (F(1), F(1, 2))),
        ("spec_rl:1e1", (F(10),)),
    ],
)
def test_numbers_configure_rule_and_specification(name, values):
    rule = find_rule(name)
    assert rule.values == values
    names = [parameter.name for parameter in rule.parameters][: len(values)]
    assert rule.law.keywords == dict(zip(names, map(float, values), strict=True))
    assert rule.spec.keywords == dict(zip(names, values, strict=True))
    assert find_rule(rule.label) == rule
    assert not rule.lossless


def test_labels_tell_settings_apart():
    assert find_rule("lenience:0.50").label == "lenience:0.5"
    assert find_rule("lenience:1/3").label == "lenience:1/3"
    assert find_rule("typical:0.1,2").label == "typical:0.1,2.0"
    assert RULES["lenience"].label == "lenience"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lenient", "unknown rule 'lenient'; choose one of: auto, block"),
        ("lenient:0.5", "unknown rule 'lenient'"),
        ("lenience:2", "share=2 is not allowed: give a number above 0 and at most 1"),
        ("lenience:0", "share=0 is not allowed"),
        ("lenience:much", "'much' is no number; give one like 0.5 or 1/2"),
        ("lenience:", "'' is no number"),
        ("lenience:1/0", "'1/0' is no number"),
        ("lenience:nan", "'nan' is no number"),
        (
            "lenience:0.5,0.5",
            "'lenience:0.5,0.5' has 2 values and 'lenience' takes 1; give at most lenience:SHARE",
        ),
        ("rejection:1", "'rejection' takes 0; give 'rejection'"),
        ("spec_rl:0.5", "factor=1/2 is not allowed: give a number at least 1"),
        ("typical:0.09,0", "delta=0 is not allowed: give a number above 0"),
    ],
)
def test_wrong_names_and_values_are_refused(name, message):
    with pytest.raises(SpecproofError) as error:
        find_rule(name)
    assert message in str(error.value)


def test_a_lossy_rule_has_to_be_allowed():
    with pytest.raises(SpecproofError, match=r"'lenience' is lossy.*allow_lossy=True.*lossless rule: .*rejection"):
        choose_rule("lenience:0.5", Sampled())
    assert choose_rule("lenience:0.5", Sampled(), allow_lossy=True).label == "lenience:0.5"
    assert choose_rule("auto", Sampled(), allow_lossy=True).lossless


@pytest.mark.parametrize("name", ["hsd_published", "dropmatch"])
def test_a_rule_for_audits_is_never_chosen(name):
    for allow_lossy in (False, True):
        with pytest.raises(SpecproofError, match=f"{name}' is for audits only"):
            choose_rule(name, Sampled(), allow_lossy=allow_lossy)
        with pytest.raises(SpecproofError, match="for audits only"):
            admit(RULES[name], Sampled(), allow_lossy=allow_lossy)


def test_a_refused_draw_names_lossless_rules_only():
    with pytest.raises(SpecproofError, match="'threshold' does not take iid chains; rules that do: ") as error:
        choose_rule("threshold", Sampled(), allow_lossy=True)
    named = str(error.value).split("do: ")[1].split(", ")
    assert named == [rule.name for rule in sound_rules() if "iid" in rule.draws]
    assert "walk" in named
    assert "lenience" not in named


def test_every_default_is_allowed_and_used_by_rule_and_specification():
    for rule in RULES.values():
        for parameter in rule.parameters:
            parameter.check(parameter.exact)
            for function in (rule.law, rule.spec):
                assert function.__kwdefaults__[parameter.name] in (parameter.default, parameter.exact)
