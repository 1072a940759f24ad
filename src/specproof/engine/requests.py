"""A request on its way through the engine, and the result it becomes."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from specproof.engine.history import History
from specproof.engine.logprobs import TokenLogprobs
from specproof.engine.stats import Statistics
from specproof.engine.text import StoppedText
from specproof.engine.watch import Watched
from specproof.errors import SpecproofError
from specproof.noise import completion_seed
from specproof.sampling import ends_for, processors_for
from specproof.types import Backend, FinishReason, SamplingParams, TokenSequence


@dataclass(frozen=True)
class Result:
    """What came out, and how.

    Attributes:
        text, tokens: the completion; tokens include the token that ended it, text does not. Text is empty
            without a tokenizer, and leaves out a stop string, whose tokens are still counted.
        delta: text that is new since the last result of a stream.
        finish_reason: "stop" at an end token or a stop string, "length" at max_tokens or the context limit,
            "error" (see `error`), "cancelled", None while it runs.
        seed: given as `SamplingParams.seed` to an engine with the same target and rule, it reproduces the text (up
            to the arithmetic of the model) if the temperature is 0 or the rule is "coupling", whatever drafts and
            however far; under other rules if the drafter is the same too and the seed was given the first time
            (see `Pace`), or both engines are not adaptive.
        rule: the verification rule that was used.
        lossless: whether that rule keeps the target's law; None if it is not one of RULES.
        stats: what it cost and gained.
        prompt_tokens: length of the prompt; with the length of `tokens` that is all there is to count.
        index: number of the completion among the n of its prompt.
        logprobs, prompt_logprobs: one entry for each token, if asked for.
        error: why the request could not go on; the tokens before that are right.
        warnings: what the request had to do without.
        target_version, drafter_version: of the weights that it began with (see `Synced`).
        updates: where the target got new weights while it ran: tokens of output before them, and their version.
            Empty: all tokens were drawn from one target.
    """

    text: str
    tokens: tuple[int, ...]
    delta: str
    finish_reason: FinishReason | None
    seed: int
    rule: str
    lossless: bool | None
    stats: Statistics
    prompt_tokens: int = 0
    index: int = 0
    logprobs: tuple[TokenLogprobs, ...] | None = None
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None
    error: str | None = None
    warnings: tuple[str, ...] = ()
    target_version: int = 0
    drafter_version: int = 0
    updates: tuple[tuple[int, int], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Everything but `delta`, for JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "delta"}
        return values | {
            "tokens": list(self.tokens),
            "stats": self.stats.as_dict(),
            "logprobs": _listed(self.logprobs),
            "prompt_logprobs": _listed(self.prompt_logprobs),
            "warnings": list(self.warnings),
            "updates": [list(update) for update in self.updates],
        }


class Request:
    """A sequence on its way: what is left of its prompt, its statistics, and its text so far.

    Attributes:
        sequence: holds as much of the prompt as was read, then the output.
        history: what became of its drafts.
        unread: the rest of the prompt.
        reserve: most tokens that it can come to.
        begun: whether its prompt was read and its first step was prepared.
        speculates: whether it is drafted for; off for good once the drafter has failed it.
        budget: most nodes drafted for it in one step, if fewer than the engine's.
        watched: an empty list here gets an entry a step; None costs nothing.
        target_version, drafter_version, updates: as in `Result`.
    """

    def __init__(self, sequence: TokenSequence, tokenizer: Any, index: int = 0, reserve: int = 0) -> None:
        self.sequence = sequence
        self.history = History()
        self.index = index
        self.reserve = reserve
        self.unread: list[int] = sequence.tokens
        sequence.tokens = []
        self.begun = False
        self.stats = Statistics()
        self.speculates = True
        self.budget: int | None = None
        self.watched: list[Watched] | None = None
        self.logprobs: list[TokenLogprobs] = []
        self.prompt_logprobs: list[TokenLogprobs | None] | None = None
        self.error: str | None = None
        self.warnings: list[str] = []
        self.target_version = self.drafter_version = 0
        self.updates: list[tuple[int, int]] = []
        self._text = StoppedText(tokenizer, sequence.params) if tokenizer is not None else None

    @property
    def done(self) -> bool:
        """Whether nothing more will come."""
        return self.sequence.finish_reason is not None

    @property
    def stopped(self) -> Callable[[TokenSequence], bool] | None:
        """Looks for stop strings, if there are any; see `stopping.commit`."""
        return self._text.stopped if self._text is not None and self.sequence.params.stop else None

    def read(self, count: int) -> None:
        """Take in the next `count` tokens of the prompt."""
        self.sequence.tokens += self.unread[:count]
        del self.unread[:count]

    def weighed(self, target: int, drafter: int) -> None:
        """From now on these versions of the weights are at work."""
        written = len(self.sequence.tokens) - self.sequence.prompt_length if not self.unread else 0
        if written > 0:
            latest = self.updates[-1][1] if self.updates else self.target_version
            if target != latest:
                self.updates = [update for update in self.updates if update[0] < written] + [(written, target)]
            return
        self.target_version, self.drafter_version = target, drafter
        self.prompt_logprobs = None  # they were the old target's

    def end(self, reason: FinishReason, error: str | None = None) -> None:
        """Nothing more will come, for a reason that is not in the text."""
        self.sequence.finish_reason = reason
        self.error = error

    def result(self, rule: str, lossless: bool | None) -> Result:
        """The result so far; gives out the text that was decided since the last call."""
        params = self.sequence.params
        delta = self._text.take(self.sequence) if self._text is not None else ""
        return Result(
            text=self._text.given if self._text is not None else "",
            tokens=tuple(self.sequence.output),
            delta=delta,
            finish_reason=self.sequence.finish_reason,
            seed=self.sequence.seed,
            rule=rule,
            lossless=lossless,
            stats=self.stats,
            prompt_tokens=self.sequence.prompt_length,
            index=self.index,
            logprobs=None if params.logprobs is None else tuple(self.logprobs),
            prompt_logprobs=None if self.prompt_logprobs is None else tuple(self.prompt_logprobs),
            error=self.error,
            warnings=tuple(self.warnings),
            target_version=self.target_version,
            drafter_version=self.drafter_version,
            updates=tuple(self.updates),
        )


def make_requests(
    prompt: str | Sequence[int],
    params: SamplingParams,
    target: Backend,
    tokenizer: Any,
    eos: Collection[int],
    *,
    trace: bool = False,
) -> list[Request]:
    """The n requests of a prompt; `trace` has their statistics keep every step.

    Raises:
        SpecproofError: the prompt or a parameter does not fit the target or the tokenizer.
    """
    tokens = check_prompt(prompt, tokenizer, target)
    if params.stop and tokenizer is None:
        raise SpecproofError(f"stop={params.stop!r} needs a tokenizer; give stop_token_ids instead")
    seed = secrets.randbits(64) if params.seed is None else params.seed
    ends = ends_for(params, eos)
    reserve = min(len(tokens) + params.max_tokens, target.context)
    made = []
    for index in range(params.n):
        # Each completion has its own: they may keep the state of the text they follow.
        processors = processors_for(params, target.vocabulary, tokenizer, ends)
        sequence = TokenSequence(list(tokens), len(tokens), params, completion_seed(seed, index), ends, processors)
        made.append(Request(sequence, tokenizer, index, reserve))
        made[-1].stats.trace = [] if trace else None
    return made


def _listed(entries: Sequence[TokenLogprobs | None] | None) -> list[dict[str, Any] | None] | None:
    return None if entries is None else [None if entry is None else asdict(entry) for entry in entries]


def check_prompt(prompt: str | Sequence[int], tokenizer: Any, target: Backend) -> list[int]:
    """Tokens of a prompt that the target can take.

    Raises:
        SpecproofError: empty, longer than the context, or with tokens outside the vocabulary.
    """
    if isinstance(prompt, str):
        if tokenizer is None:
            raise SpecproofError("a text prompt needs a tokenizer; give tokens, or an engine with a tokenizer")
        tokens = list(tokenizer(prompt)["input_ids"])
    else:
        tokens = [int(token) for token in prompt]
    if not tokens:
        raise SpecproofError("the prompt is empty; give at least one token")
    if len(tokens) > target.context:
        raise SpecproofError(
            f"the prompt has {len(tokens)} tokens and the context takes {target.context}; shorten it"
        )
    if outside := [token for token in tokens if not 0 <= token < target.vocabulary]:
        raise SpecproofError(
            f"token {outside[0]} is outside the vocabulary; tokens are 0 to {target.vocabulary - 1}"
        )
    return tokens
