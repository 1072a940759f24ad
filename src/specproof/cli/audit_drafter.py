"""`specproof audit drafter`: are drafted tokens drawn from the rows that come with them?"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from specproof.cli.answers import EXIT_CODES, add_answer_flags, check_html, give, replay_command
from specproof.cli.flags import add_model_flags, prepare_torch
from specproof.errors import SpecproofError, unknown

if TYPE_CHECKING:
    from specproof.audit.drafter.run import Where

FORM = "MODULE:CLASS"


def add_parser(kinds: Any) -> None:
    """Register the command."""
    parser = kinds.add_parser(
        "drafter",
        help="a drafter: are its tokens drawn from the rows that come with them?",
        description="Enumerate every draft of a drafter on a tiny model and compare its probability with what the "
        "returned rows say; then draw many and test them. With --model, on that model too: enumerated under top-k "
        f"2, sampled with the whole vocabulary. {EXIT_CODES}",
        epilog="example: specproof audit drafter model --model default --draft-model FOLDER",
        allow_abbrev=False,
    )
    parser.add_argument("name", help=f"a drafter, or {FORM} of your own, found from this folder", metavar="NAME")
    add_model_flags(parser)
    parser.set_defaults(model=None)
    parser.add_argument(
        "--draft-model", default=None, help="folder or name of the smaller model, or of the head", metavar="NAME"
    )
    parser.add_argument("--alpha", type=float, default=1e-3, help="rate of false alarms (default 0.001)")
    add_answer_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Audit a drafter; the exit code is the verdict's."""
    check_html(args)
    if not 0 < args.alpha < 1:
        raise SpecproofError(f"--alpha {args.alpha} is not allowed: give a rate between 0 and 1, such as 0.001")
    if args.draft_model is not None and args.model is None:
        raise SpecproofError("--draft-model needs the model that it drafts for: give --model as well")
    prepare_torch(args)
    from specproof.audit.drafter.run import audit_drafter, built, tiny_place
    from specproof.audit.engine_suite import DRAFTERS as TINY
    from specproof.audit.imported import imported
    from specproof.drafters import DRAFTERS

    places: list[Where] = []
    if ":" in args.name:
        make = imported(args.name, FORM)
        if args.model is None:
            places.append(tiny_place(args.name, lambda target: built(make, target)))
    elif args.name not in {*TINY, *DRAFTERS}:
        raise unknown("drafter", args.name, [*TINY, FORM])
    else:
        make = None
        places.append(tiny_place(args.name))
    if args.model is not None:
        places.append(_real(args, make))
    result = audit_drafter(
        args.name,
        places,
        alpha=args.alpha,
        announce=lambda line: print(line, file=sys.stderr, flush=True),
        replay=replay_command(),
    )
    return give(result.answer, args)


def _real(args: argparse.Namespace, make: Any) -> Where:
    """The drafter on a loaded model."""
    from specproof.audit.drafter.run import built, real_place
    from specproof.audit.prompts import PROMPTS
    from specproof.backends.hf import HFBackend
    from specproof.drafters import DRAFTERS
    from specproof.engine.loading import chat_tokens, load_engine, load_model, load_tokenizer

    tokenizer = load_tokenizer(args.model)
    # The fourth prompt repeats itself; cut within its second half, lookups find what follows.
    prompts = [list(tokenizer(PROMPTS[3])["input_ids"])[:-4], chat_tokens(tokenizer, PROMPTS[0])]
    if make is not None:
        target = HFBackend(load_model(args.model, args.dtype, args.device))
        model = args.draft_model
        own = target if model is None else HFBackend(load_model(model, args.dtype, args.device))
        return real_place(args.model, target, built(make, own), prompts)
    if args.name not in DRAFTERS:
        raise SpecproofError(f"drafter {args.name!r} is of the tiny suite: leave out --model")
    engine = load_engine(
        args.model,
        drafter=args.name,
        draft_model=args.draft_model,
        # Any rule does: nothing is verified here.
        rule="auto",
        dtype=args.dtype,
        device=args.device,
        allow_lossy=True,
    )
    return real_place(args.model, engine.target, engine.drafter, prompts)
