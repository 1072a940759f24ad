"""What the README says exists, exists, and the other way round."""

import re
from pathlib import Path

from specproof.drafters import DRAFTERS
from specproof.rules import RULES

README = (Path(__file__).parents[1] / "README.md").read_text()


def rows(title):
    table = README[README.index(f"| {title} |") :].split("\n\n")[0]
    return {re.match(r"\| `(\w+)`", line)[1]: line for line in table.splitlines()[2:]}


def test_every_rule_is_listed_with_the_right_label():
    listed = rows("rule")
    assert set(listed) == set(RULES)
    for name, rule in RULES.items():
        assert ("| lossless |" in listed[name]) == rule.lossless
        assert ("audits only" in listed[name]) == (not rule.usable)


def test_every_drafter_is_listed():
    assert set(rows("drafter")) == set(DRAFTERS)
