"""What a lossy rule costs, exactly: how far its law is from the target's, and what it had to be at least.

For one drafted token every rule obeys P(reject) + TV(output, target) >= TV(draft, target): a draft that is kept
is the output, so P(reject) >= TV(output, draft), and the triangle inequality does the rest. Rejection meets it
with TV 0; a lossy rule trades one summand for the other, at best one for one.

Source: the one-step form of Yin et al. 2024 (2411.00841).
"""

from dataclasses import dataclass

import torch

from specproof.audit.exact import Instance, RuleFunction, target_law, text_law, tv
from specproof.audit.report import TOLERANCE
from specproof.backends.table import TableModel
from specproof.tree import Tree
from specproof.types import Drawn


@dataclass(frozen=True)
class LossyResult:
    """One drafted token under a rule, summed exactly.

    Attributes:
        rule: its name.
        tv: total variation between the law that comes out and the target's.
        rejected: probability that the drafted token was not kept.
        distance: total variation between the draft's law and the target's.
        excess: most that a token comes out too often: the largest output / target, infinite where a token
            without target mass comes out.
    """

    rule: str
    tv: float
    rejected: float
    distance: float
    excess: float

    @property
    def slack(self) -> float:
        """Rejected + tv - distance: 0 for a rule that trades as well as can be, never negative."""
        return self.rejected + self.tv - self.distance

    @property
    def ok(self) -> bool:
        """Whether the bound holds; a rule for which it fails is not what it says it is."""
        return self.slack >= -TOLERANCE

    def __str__(self) -> str:
        return (
            f"{'LOSSY' if self.tv > TOLERANCE else 'EXACT HERE'}: {self.rule}: TV {self.tv:.6g}, rejects "
            f"{self.rejected:.6g}, the two sum to at least {self.distance:.6g} (slack {self.slack:.2g}); "
            f"no token more than {self.excess:.6g} times as often as it should"
        )


def audit_lossy(
    rule: RuleFunction, target: list[float], draft: list[float], drawn: Drawn = "iid", name: str = ""
) -> LossyResult:
    """One drafted token of a rule on a pair of rows.

    Args:
        rule: a rule, or one of RULES.
        target, draft: rows, each summing to 1; a point draft is the draft row's likeliest token.
        drawn: "iid" or "point".
        name: for the report.
    """
    models = TableModel.constant(target), TableModel.constant(draft)
    instance = Instance(*models, Tree.chain(1), drawn, 1)
    law, accepted = text_law(rule, instance)
    right = target_law(instance)
    proposed = models[1].levels[0][0]
    if drawn == "point":
        proposed = torch.nn.functional.one_hot(proposed.argmax(), len(proposed)).double()
    excess = torch.where(law > 0, law / right, 0).max()
    return LossyResult(
        name or str(getattr(rule, "label", getattr(rule, "__name__", "custom"))),
        tv(law, right),
        1 - accepted,
        tv(proposed, right),
        float(excess),
    )
