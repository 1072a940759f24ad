"""Write a verification rule, and ask for its exact law.

    python examples/own_rule.py

A rule is any function from target rows and a draft to a law. Here is the classical rule, and a version that
many implementations shipped: after a rejection it draws from the target again instead of from the residual.
"""

from dataclasses import replace

import torch
from torch import Tensor

from specproof.audit.exact import Instance, target_law, text_law, tv
from specproof.backends.table import TableModel
from specproof.rules import RULES
from specproof.rules.rows import pick
from specproof.tree import Tree
from specproof.types import Draft, Law


def mine(target: Tensor, draft: Draft) -> Law:
    """Accept as usual; after a rejection, draw from the target row. Looks harmless."""
    right = RULES["rejection"](target, draft)
    return replace(right, next=lambda at: pick(target, at))


def main() -> None:
    """Sum both laws over every draft of two tokens, round after round, until the text has four tokens."""
    generator = torch.Generator().manual_seed(0)
    target, draft = TableModel.random(3, 3, generator), TableModel.random(3, 3, generator)
    instance = Instance(target, draft, Tree.chain(2), "iid", length=4)
    for name, rule in {"rejection": RULES["rejection"], "mine": mine}.items():
        law, accepted = text_law(rule, instance)
        print(f"{name:10} TV {tv(law, target_law(instance)):.1e}, accepts {accepted:.3f} of 2 drafted tokens")


if __name__ == "__main__":
    main()
