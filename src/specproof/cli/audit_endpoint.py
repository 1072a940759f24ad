"""`specproof audit endpoint`: a server from outside, over an OpenAI-compatible API."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specproof.cli.answers import EXIT_CODES, add_answer_flags, check_html, give, replay_command
from specproof.cli.flags import add_sampling_flags, prepare_torch, sampling_from
from specproof.errors import SpecproofError
from specproof.params import SamplingParams

if TYPE_CHECKING:
    from specproof.audit.endpoint.ask import Endpoint
    from specproof.audit.endpoint.plan import EndpointPlan
    from specproof.audit.endpoint.run import Progress

_KEY = "SPECPROOF_API_KEY"


def add_parser(kinds: Any) -> None:
    """Register the command."""
    parser = kinds.add_parser(
        "endpoint",
        help="a server, over an OpenAI-compatible API",
        description="Ask a server for many texts with speculation and as many without, and test whether both "
        "have one law; where log-probabilities are told, or with a copy of the model, every token is tested "
        "against its law as well. A lossless server is called biased at most at rate --alpha, however often one "
        "looks. Every answer is kept on disk as it arrives; a stopped audit goes on with the same command. "
        + EXIT_CODES,
        allow_abbrev=False,
        conflict_handler="resolve",
    )
    parser.add_argument("url", help="base of the API, as in http://127.0.0.1:8000/v1", metavar="URL")
    _add_arms(parser)
    add_sampling_flags(parser)
    parser.add_argument("--max-tokens", type=int, default=16, help="tokens of a text (default 16)", metavar="N")
    _add_plan(parser)
    _add_manners(parser)
    add_answer_flags(parser)
    parser.set_defaults(run=run)


def _add_arms(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what is compared").add_argument
    add("--on", type=_fields, default={}, help="fields of a request with speculation", metavar="JSON")
    add("--off", type=_fields, default=None, help="fields of a request without", metavar="JSON")
    add("--reference", default=None, help="another server, asked without speculation in its place", metavar="URL")
    add("--model", default=None, help="a copy of the model: its rows are what tokens should follow", metavar="DIR")
    add("--draft-model", default=None, help="a draft model: bets with --model see more", metavar="DIR")
    add("--draft-lookup", action="store_true", help="the same for a server that looks drafts up in the text")
    add("--dtype", default="float32", help="of these copies (default float32)")
    add("--threads", type=int, default=None, help="processor threads for them", metavar="N")
    add("--served-model", default="", help="name to ask for (default: the server's first)", metavar="NAME")
    add("--reference-model", default="", help="the same for --reference", metavar="NAME")
    add("--chat", action="store_true", help="ask for chats, not completions")
    add("--stream", action="store_true", help="ask for streams of events")
    add("--text-prompts", action="store_true", help="send prompts as texts; with --model they go as tokens else")
    add("--no-seed", action="store_true", help="send no seeds")
    add("--trust-switch", action="store_true", help="take it that --on and --off do what they should")
    add("--prompt", action="append", default=[], help="may be repeated (default: eight, at temperature 0 twenty)")


def _add_plan(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("plan").add_argument
    add("--draws", type=int, default=None, help="most texts a prompt and arm (default 1024; 3 at temperature 0)")
    add("--round", type=int, default=16, help="texts a prompt between two looks (default 16)", metavar="N")
    add("--alpha", type=float, default=1e-3, help="rate of false alarms (default 0.001)", metavar="N")
    add("--detect", type=float, default=0.1, help="total variation that must not be missed (default 0.1)")


def _add_manners(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("manners").add_argument
    add("--concurrency", type=int, default=8, help="requests at a time (default 8)", metavar="N")
    add("--rate", type=float, default=0.0, help="most requests a second (default: no limit)", metavar="N")
    add("--timeout", type=float, default=60.0, help="seconds without a sign of life (default 60)", metavar="N")
    add("--retries", type=int, default=6, help="how often to ask again (default 6)", metavar="N")
    add("--backoff", type=float, default=0.5, help="seconds before the first, doubled each time (default 0.5)")
    add("--api-key-env", default=_KEY, help=f"variable that holds the API key (default {_KEY})", metavar="NAME")
    add("--samples", default=None, help="file for the answers (default: named after the audit)", metavar="FILE")


def _fields(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object, as in '{{\"speculative\": false}}'")
    return found


def run(args: argparse.Namespace) -> int:
    """Ask, judge, report."""
    if find_spec("httpx") is None:
        raise SpecproofError("httpx not installed: pip install 'specproof[endpoint]'")
    check_html(args)
    from specproof.audit.endpoint.ask import Endpoint, base_of
    from specproof.audit.endpoint.client import Manners
    from specproof.audit.endpoint.plan import EndpointPlan

    greedy = args.temperature == 0
    draws = args.draws if args.draws is not None else 3 if greedy else 1024
    plan = EndpointPlan(args.alpha, draws, args.max_tokens, min(args.round, draws), args.detect, args.seed or 0)
    endpoint = Endpoint(
        base=base_of(args.url),
        on=args.on,
        off=args.off,
        reference=None if args.reference is None else base_of(args.reference),
        chat=args.chat,
        stream=args.stream,
        name=args.served_model,
        reference_name=args.reference_model,
        seeded=not args.no_seed,
        texts=args.text_prompts,
    )
    given = [flag for flag in ("draft_model", "draft_lookup") if getattr(args, flag)]
    flags = " and ".join("--" + flag.replace("_", "-") for flag in given)
    if given and args.model is None:
        raise SpecproofError(f"{flags} needs --model: give the model that is served as well")
    if len(given) > 1:
        raise SpecproofError(f"{flags}: give one, the nearer to what the server drafts with")
    manners = Manners(args.concurrency, args.rate, args.timeout, args.retries, args.backoff)
    return _audit(args, endpoint, plan, manners)


def _audit(args: argparse.Namespace, endpoint: Endpoint, plan: EndpointPlan, manners: Any) -> int:
    from specproof.audit.endpoint.client import Interrupted
    from specproof.audit.endpoint.run import audit_endpoint
    from specproof.audit.endpoint.store import Store
    from specproof.audit.prompts import PROMPTS

    params = sampling_from(args)
    prompts = args.prompt or PROMPTS[: len(PROMPTS) if params.temperature == 0 else 8]
    store = Store(Path(args.samples or f"specproof-audit-{_named(args, params, prompts)}.sqlite"))
    try:
        with _progress() as tell:
            result = audit_endpoint(
                endpoint,
                prompts,
                params,
                plan,
                store,
                local=_local(args),
                manners=manners,
                key=os.environ.get(args.api_key_env),
                trusted=args.trust_switch,
                announce=lambda line: print(line, file=sys.stderr, flush=True),
                tell=tell,
                replay=replay_command(),
            )
    except Interrupted as error:
        print(f"specproof: {error}", file=sys.stderr)
        return 3
    finally:
        store.close()
    return give(result.answer(), args, result)


def _local(args: argparse.Namespace) -> Any:
    if args.model is None:
        return None
    prepare_torch(args)
    from specproof.audit.endpoint.local import Local

    return Local(args.model, args.draft_model, args.dtype, chat=args.chat, lookup=args.draft_lookup)


def _named(args: argparse.Namespace, params: SamplingParams, prompts: Any) -> str:
    """Of an audit: the same flags, the same name, so that a stopped one is found again."""
    names: tuple[str, ...] = (
        "url",
        "on",
        "off",
        "reference",
        "model",
        "draft_model",
        "draft_lookup",
        "dtype",
        "chat",
        "stream",
        "served_model",
        "no_seed",
        "text_prompts",
    )
    names += ("draws", "round", "alpha", "detect", "trust_switch", "reference_model")
    asked = [repr(getattr(args, name)) for name in names] + [repr(params), repr(list(prompts))]
    return sha256("\n".join(asked).encode()).hexdigest()[:8]


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """A bar with the running capital and what the texts so far would have caught."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("texts"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("texts", total=None, said="")

        def tell(now: Any) -> None:
            bar.update(task, completed=now.texts, total=now.most)
            if now.log_e is not None:
                caught = f", TV {now.smallest:.2f} would show" if now.smallest < 1 else ""
                bar.update(task, said=f"E 10^{now.log_e / 2.302585:+.1f}{caught}")

        yield tell
