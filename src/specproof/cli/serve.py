"""`specproof serve`: an OpenAI-compatible server."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from specproof.cli.flags import add_model_flags, add_speculation_flags, engine_from, prepare_torch
from specproof.errors import SpecproofError

if TYPE_CHECKING:
    from fastapi import FastAPI

_KEY = "SPECPROOF_API_KEY"


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "serve",
        help="an OpenAI-compatible server",
        description="Serve completions and chats as OpenAI does, all requests in one continuous batch. "
        f"With {_KEY} in the environment callers must send it as a bearer token.",
        allow_abbrev=False,
    )
    add_model_flags(parser)
    add_speculation_flags(parser)
    add = parser.add_argument_group("server").add_argument
    add("--host", default="127.0.0.1", help="address to listen at (default 127.0.0.1: this machine alone)")
    add("--port", type=int, default=8000, help="port, 0 for any free one (default 8000)", metavar="N")
    add("--name", default=None, help="name of the model for callers (default: that of --model)")
    add("--max-batch", type=int, default=16, help="requests in one forward (default 16)", metavar="N")
    add("--kv-tokens", type=int, default=None, help="bound on the key-value store, in tokens", metavar="N")
    add("--max-waiting", type=int, default=256, help="requests at once before 429 (default 256)", metavar="N")
    add("--max-tokens-limit", type=int, default=None, help="largest max_tokens (default: context)", metavar="N")
    add("--patience", type=float, default=30.0, help="seconds to finish in when stopped (default 30)", metavar="N")
    text = "replicas by Ray Serve: an address, 'auto', or 'local' (default): a Ray of this server's own"
    add("--ray", nargs="?", const="local", default=None, help=text, metavar="ADDRESS")
    add(
        "--replicas",
        type=int,
        default=None,
        help="with --ray: engines behind the address (default 1)",
        metavar="N",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load, listen, serve until interrupted."""
    missing = [name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise SpecproofError(f"{', '.join(missing)} not installed: pip install 'specproof[serve]'")
    if not 0 <= args.port < 65536:
        raise SpecproofError(f"--port {args.port} is not allowed: give 0 to 65535")
    if args.patience < 0 or args.max_waiting < 1:
        raise SpecproofError(
            f"--patience {args.patience}, --max-waiting {args.max_waiting}: give no less than 0 and 1"
        )
    if args.ray is not None:
        return _run_replicas(args)
    if args.replicas is not None:
        raise SpecproofError("--replicas needs Ray: add --ray, or leave it out")
    app = _builder(args, os.environ.get(_KEY) or None)()
    from specproof.server.listen import Listener

    server = Listener(app, args.host, args.port, "info")
    try:
        server.run()
    except SystemExit as stopped:  # the port is taken, or not ours to open
        raise SpecproofError(f"cannot listen at {args.host}:{args.port}; choose another --port") from stopped
    return 0


def _builder(args: argparse.Namespace, key: str | None) -> Callable[[], FastAPI]:
    """Makes the application that the flags ask for, wherever it is called."""

    def build() -> FastAPI:
        prepare_torch(args)
        from specproof.server.app import Settings, create_app

        engine = engine_from(args, max_batch=args.max_batch, kv_tokens=args.kv_tokens)
        settings = Settings(
            model=args.name or args.model,
            key=key,
            most_waiting=args.max_waiting,
            most_tokens=args.max_tokens_limit,
            patience=args.patience,
        )
        return create_app(engine, settings)

    return build


def _run_replicas(args: argparse.Namespace) -> int:
    replicas = 1 if args.replicas is None else args.replicas
    if replicas < 1:
        raise SpecproofError(f"--replicas {replicas} is not allowed: give 1 or more")
    if args.port == 0:
        raise SpecproofError("--port 0 is not for --ray: name the port that all of its proxies open")
    if args.draft_shape == "sequoia":
        raise SpecproofError(
            "--draft-shape sequoia measures anew in each replica: give the shape that it measured"
        )
    from specproof.server.replicas import Replicas, serving, until_stopped

    how = Replicas(
        address=args.ray,
        host=args.host,
        port=args.port,
        count=replicas,
        threads=args.threads or 1,
        gpus=int(args.device.startswith("cuda")),
        waiting=args.max_waiting,
        patience=args.patience,
    )
    with serving(_builder(args, os.environ.get(_KEY) or None), how):
        print(f"{replicas} replicas at http://{args.host}:{args.port}", flush=True)
        until_stopped()
    return 0
