"""The table of docs/proofs.md: every rule on the largest shapes that are proved in minutes.

python benchmarks/proofs.py [--timeout SECONDS] [RULE ...]
"""

import argparse

from specproof.audit.proof import prove_rule
from specproof.rules import RULES

# Rule, tokens, shape, drawn.
PROOFS = (
    ("rejection", 8, "chain:1", "iid"),
    ("rejection", 4, "chain:2", "iid"),
    ("rejection", 3, "chain:3", "point"),
    ("block", 8, "chain:1", "iid"),
    ("block", 4, "chain:2", "iid"),
    ("block", 2, "chain:3", "iid"),
    ("block", 3, "chain:2", "point"),
    ("spec_rl_exact", 4, "chain:2", "iid"),
    ("walk", 4, "3", "iid"),
    ("walk", 3, "2x1", "iid"),
    ("walk", 2, "2x2", "iid"),
    ("walk", 2, "2x2", "without_replacement"),
    ("walk", 2, "2x2", "top_and_one"),
    ("walk", 3, "2", "point"),
    ("walk", 2, "2x1", "point"),
    ("coupling", 3, "2x1", "iid"),
    ("siblings", 4, "2", "iid"),
    ("siblings", 3, "3", "iid"),
    ("siblings", 3, "2x1", "iid"),
    ("siblings", 2, "2x2", "iid"),
    ("siblings", 3, "2", "without_replacement"),
    ("siblings", 4, "2", "without_replacement"),
    ("siblings", 3, "3", "without_replacement"),
    ("siblings", 2, "2x2", "without_replacement"),
    ("traversal", 3, "chain:2", "iid"),
    ("traversal", 2, "chain:3", "iid"),
    ("traversal", 4, "2", "iid"),
    ("traversal", 2, "1x2", "iid"),
    ("traversal", 2, "2x1", "iid"),
    ("traversal", 3, "2", "without_replacement"),
    ("traversal", 2, "1x2", "without_replacement"),
    ("traversal", 2, "2x1", "without_replacement"),
    ("kseq", 2, "2", "iid"),
    ("kseq", 3, "2", "iid"),
    ("kseq", 4, "2", "iid"),
    ("kseq", 2, "3", "iid"),
    ("kseq", 2, "2x1", "iid"),
    ("transport", 2, "2", "iid"),
    ("transport", 3, "2", "iid"),
    ("transport", 2, "3", "iid"),
    ("transport", 2, "2x1", "iid"),
    ("transport", 2, "2", "without_replacement"),
    ("transport", 3, "2", "without_replacement"),
    ("transport", 2, "2x1", "without_replacement"),
    ("hu", 4, "3", "top_and_one"),
    ("hu", 2, "2x2", "top_and_one"),
    ("multipath", 4, "2", "iid"),
    ("multipath", 2, "3", "iid"),
    ("multipath", 2, "chain:2", "iid"),
    ("multipath", 2, "2x1", "iid"),
    ("lenience", 2, "chain:1", "iid"),
    ("typical", 2, "chain:1", "iid"),
    ("mars", 2, "chain:1", "iid"),
    ("threshold", 2, "chain:1", "point"),
    ("spec_rl", 2, "chain:1", "iid"),
    ("dropmatch", 2, "chain:1", "iid"),
    ("hsd_published", 2, "chain:2", "iid"),
)


def main() -> None:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rules", nargs="*", help="only these rules", metavar="RULE")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for each proof (default 300)")
    args = parser.parse_args()
    print("| rule | tokens | shape | drawn | result |")
    print("| --- | --- | --- | --- | --- |")
    for rule, vocabulary, shape, drawn in PROOFS:
        if rule not in RULES or (args.rules and rule not in args.rules):
            continue
        result = prove_rule(rule, vocabulary, shape, drawn, args.timeout)
        found = result.outcome.counterexample
        said = f"{result.outcome.status}, " + (f"TV {found.tv}" if found else f"{result.outcome.cases} cases")
        reason = f" ({result.outcome.reason})" if result.outcome.reason else ""
        print(
            f"| {rule} | {vocabulary} | {shape} | {drawn} | {said}{reason}, {result.seconds:.1f} s |", flush=True
        )


if __name__ == "__main__":
    main()
