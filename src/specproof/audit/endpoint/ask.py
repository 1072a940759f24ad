"""What is asked for: the body of a request, and which wishes beyond the plain ones a server grants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from specproof.audit.endpoint.client import Client, Refused
from specproof.errors import SpecproofError
from specproof.params import SamplingParams

# Sampling parameters that servers know by these names; others cannot be audited from outside.
SENT = (
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
    *("logit_bias", "min_tokens", "stop", "stop_token_ids", "ignore_eos"),
)
_UNSENT = ("max_tokens", "seed")
# How many likely tokens are asked for; the first number that is granted is taken.
MOST_TOLD = (20, 5)


@dataclass(frozen=True)
class Endpoint:
    """A server, and the two ways to ask it.

    Attributes:
        base: address of the API, up to and with `/v1`.
        on, off: fields of the body with speculation, and without.
        reference: address of another server that is asked without speculation in its place.
        chat: ask for chats instead of completions.
        stream: ask for streams.
        name, reference_name: of the model; empty for the first that the server has.
        seeded: whether a seed is sent with each request.
        texts: send prompts as texts even where their tokens are known.
    """

    base: str
    on: Mapping[str, Any] = field(default_factory=dict)
    off: Mapping[str, Any] | None = None
    reference: str | None = None
    chat: bool = False
    stream: bool = False
    name: str = ""
    reference_name: str = ""
    seeded: bool = True
    texts: bool = False

    def __post_init__(self) -> None:
        for address in (self.base, self.reference):
            if address is not None and not address.startswith(("http://", "https://")):
                raise SpecproofError(f"{address!r} is no address: give http://HOST:PORT/v1")

    @property
    def controlled(self) -> bool:
        """Whether there is anything to ask without speculation."""
        return self.off is not None or self.reference is not None

    def url(self, arm: str) -> str:
        """Where an arm is asked."""
        base = self.reference if arm == "off" and self.reference is not None else self.base
        return f"{base}/{'chat/completions' if self.chat else 'completions'}"


@dataclass(frozen=True)
class Granted:
    """What a server does beyond the plain: found out by asking.

    Attributes:
        told: likely tokens with their log-probabilities; 0 for none.
        ids: it tells tokens as numbers.
        named: it does so beside log-probabilities only, which are asked for though they tell no law.
        endless: it takes `ignore_eos`.
        seed: it takes seeds.
    """

    told: int = 0
    ids: bool = False
    named: bool = False
    endless: bool = False
    seed: bool = False


def base_of(address: str) -> str:
    """The base of an API, from any address below it."""
    for tail in ("/", "/chat/completions", "/completions"):
        address = address.removesuffix(tail)
    return address if address.rstrip("/").split("/")[-1].startswith("v") else f"{address}/v1"


def check_params(params: SamplingParams) -> None:
    """Refuse parameters that are not sent to servers.

    Raises:
        SpecproofError: there is one.
    """
    usual = SamplingParams()
    for each in fields(SamplingParams):
        if each.name not in (*SENT, *_UNSENT) and getattr(params, each.name) != getattr(usual, each.name):
            raise SpecproofError(f"{each.name} does nothing in an audit of a server: leave it out")


def body_of(
    endpoint: Endpoint, granted: Granted, params: SamplingParams, prompt: str | list[int], seed: int | None
) -> dict[str, Any]:
    """The body of a request, without an arm's own fields."""
    usual = SamplingParams()
    body: dict[str, Any] = {"temperature": params.temperature, "top_p": params.top_p}
    body |= {"messages": [{"role": "user", "content": prompt}]} if endpoint.chat else {"prompt": prompt}
    body["max_tokens"] = params.max_tokens
    for name in SENT:
        value = getattr(params, name)
        if value != getattr(usual, name):
            body[name] = list(value) if isinstance(value, tuple) else value
    if endpoint.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if most := granted.told or int(granted.named):
        body |= {"logprobs": True, "top_logprobs": most} if endpoint.chat else {"logprobs": most}
    if granted.ids:
        body["return_token_ids"] = True
    if granted.endless:
        body["ignore_eos"] = True
    if granted.seed and seed is not None:
        body["seed"] = seed
    return body


def for_arm(endpoint: Endpoint, arm: str, body: dict[str, Any]) -> dict[str, Any]:
    """The body with an arm's own fields."""
    own = endpoint.on if arm == "on" else endpoint.off or {}
    other = arm == "off" and endpoint.reference is not None
    return body | {"model": endpoint.reference_name if other else endpoint.name} | dict(own)


async def probe(
    client: Client, endpoint: Endpoint, params: SamplingParams, prompt: str | list[int], arms: tuple[str, ...]
) -> Granted:
    """Ask for one thing after another; what one of the arms refuses is not asked for again.

    Raises:
        SpecproofError: the server refuses the plain request already, or does not answer.
    """

    async def answers(granted: Granted) -> list[Any]:
        body = body_of(endpoint, granted, params, prompt, 1)
        return [await client.ask(endpoint.url(arm), for_arm(endpoint, arm, body)) for arm in arms]

    granted = Granted()
    await answers(granted)
    wishes: list[dict[str, Any]] = [{"told": most} for most in MOST_TOLD]
    wishes += [{"ids": True}, {"ids": True, "named": True}, {"endless": True}]
    wishes += [{"seed": True}] if endpoint.seeded else []
    for wish in wishes:
        if ("told" in wish and granted.told) or ("ids" in wish and granted.ids):
            continue
        try:
            found = await answers(replace(granted, **wish))
        except Refused:
            continue
        if ("told" in wish and not all(_tells(answer) for answer in found)) or (
            "ids" in wish and not all(answer.ids for answer in found)
        ):
            continue
        granted = replace(granted, **wish)
    return granted


def _tells(answer: Any) -> bool:
    """Whether it has a law for every token: more than one likely token."""
    return bool(answer.rows) and all(len(row.top) > 1 for row in answer.rows)
