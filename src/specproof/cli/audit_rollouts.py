"""`specproof audit rollouts`: a certificate for texts that any engine wrote to a file."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from specproof.cli.answers import EXIT_CODES, add_answer_flags, check_html, give, replay_command
from specproof.cli.flags import add_model_flags, prepare_torch
from specproof.errors import SpecproofError


def add_parser(kinds: Any) -> None:
    """Register the command."""
    parser = kinds.add_parser(
        "rollouts",
        help="a file of rollouts, of any engine",
        description="Score every text of a file once with the policy's own model. Were its tokens drawn from that "
        "policy under the stated parameters, and what are its log-probabilities? Rollouts of the policy are "
        "called biased at most at rate --alpha. " + EXIT_CODES,
        allow_abbrev=False,
    )
    parser.add_argument("file", help="JSON, JSON lines, Parquet or a folder of it", metavar="FILE")
    add_model_flags(parser)
    add = parser.add_argument
    add(
        "--draft-model",
        default=None,
        help="a draft model: bets see faults of the verification rule",
        metavar="DIR",
    )
    add("--stale", default=None, help="an older checkpoint that may have written the texts", metavar="DIR")
    add("--params", type=_params, default=None, help="sampling parameters of all texts, as JSON", metavar="JSON")
    add(
        "--logprobs",
        default="any",
        help="what logprobs must be: folded, tempered, raw, … (default any)",
        metavar="NAME",
    )
    add("--plain", action="store_true", help="the engine did not speculate")
    add("--tokens", type=int, default=1 << 20, help="most tokens to look at (default 1048576)", metavar="N")
    add("--alpha", type=float, default=1e-3, help="rate of false alarms (default 0.001)", metavar="N")
    add("--detect", type=float, default=0.1, help="total variation that must not be missed (default 0.1)")
    add("--seed", type=int, default=0, help="of the noise inside tokens (default 0)", metavar="N")
    add_answer_flags(parser)
    parser.set_defaults(run=run)


def _params(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object, as in '{{\"temperature\": 0.7}}'")
    return found


def run(args: argparse.Namespace) -> int:
    """Read, score, report."""
    check_html(args)
    prepare_torch(args)
    from specproof.audit.rollouts.plan import RolloutPlan
    from specproof.audit.rollouts.policy import Policy, params_of
    from specproof.audit.rollouts.read import read_rollouts
    from specproof.audit.rollouts.run import audit_rollouts
    from specproof.audit.rollouts.scoring import Checkpoints

    plan = RolloutPlan(args.alpha, args.detect, args.seed, args.tokens, args.logprobs, args.plain)
    rollouts = read_rollouts(args.file)
    try:
        params = None if args.params is None else params_of(args.params)
    except (TypeError, ValueError) as error:
        raise SpecproofError(f"--params: {error}; give sampling parameters by name") from None

    def load(name: str | None) -> Policy | None:
        return None if name is None else Policy.load(name, args.dtype, args.device)

    result = audit_rollouts(
        rollouts,
        Checkpoints(Policy.load(args.model, args.dtype, args.device), load(args.draft_model), load(args.stale)),
        plan,
        params=params,
        announce=lambda line: print(line, file=sys.stderr, flush=True),
        replay=replay_command(),
    )
    return give(result.answer(), args, result)
