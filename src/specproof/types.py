"""The nouns of the project and its protocols. No torch at run time, so that `--help` stays quick.

What is not here: how a rule decides (`rules`), how a model is run (`backends`), how text stops (`stopping`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from specproof.errors import SpecproofError
from specproof.tree import Tree

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Drawn = Literal["iid", "without_replacement", "top_and_one", "point"]
FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class SamplingParams:
    """How the next token is drawn from the model's logits, and when to stop.

    The meaning and the order of the filters are those of transformers' logits processors: temperature,
    top-k, top-p, min-p. The command line derives its flags from these fields.
    """

    temperature: float = field(default=1.0, metadata={"help": "0 takes the most likely token"})
    top_k: int = field(default=0, metadata={"help": "keep the k most likely tokens; 0 keeps all"})
    top_p: float = field(default=1.0, metadata={"help": "keep the smallest set with this much mass"})
    min_p: float = field(default=0.0, metadata={"help": "drop tokens below this share of the largest"})
    max_tokens: int = field(default=128, metadata={"help": "most tokens to generate"})
    seed: int | None = field(default=None, metadata={"help": "same seed, same text; drawn afresh if not given"})
    ignore_eos: bool = field(default=False, metadata={"help": "go on after the end-of-text token"})

    def __post_init__(self) -> None:
        def need(ok: bool, name: str, allowed: str) -> None:
            if not ok:
                raise SpecproofError(f"{name}={getattr(self, name)!r} is not allowed: give {allowed}")

        need(0 <= self.temperature < float("inf"), "temperature", "a finite number >= 0 (0 is greedy)")
        need(self.top_k >= 0, "top_k", "a whole number >= 0 (0 keeps all)")
        need(0 < self.top_p <= 1, "top_p", "a number in (0, 1] (1 keeps all)")
        need(0 <= self.min_p <= 1, "min_p", "a number in [0, 1] (0 keeps all)")
        need(self.max_tokens >= 0, "max_tokens", "a whole number >= 0")
        need(self.seed is None or 0 <= self.seed < 2**64, "seed", "a whole number in [0, 2**64)")

    @classmethod
    def from_dict(cls, values: dict[str, object]) -> SamplingParams:
        """Build from a dictionary; an unknown key is an error, never ignored."""
        known = {f.name for f in fields(cls)}
        for key in values:
            if key not in known:
                raise SpecproofError(f"unknown sampling parameter {key!r}; known: {', '.join(sorted(known))}")
        return cls(**values)  # type: ignore[arg-type]


@dataclass(eq=False)
class TokenSequence:
    """One text in the making: what every part of the loop reads and only `commit` writes.

    Attributes:
        tokens: prompt and committed tokens; the last one is the root of the next draft.
        prompt_length: how many of them are the prompt.
        params: how it is sampled.
        seed: what its noise is keyed by; equal to `params.seed` where that was given.
        finish_reason: None while it runs.
    """

    tokens: list[int]
    prompt_length: int
    params: SamplingParams
    seed: int
    finish_reason: FinishReason | None = None

    @property
    def output(self) -> list[int]:
        """Committed tokens after the prompt."""
        return self.tokens[self.prompt_length :]


Batch = Sequence[TokenSequence]


@dataclass(frozen=True)
class Draft:
    """What a drafter proposes for a batch, and the rows it was really drawn from.

    Attributes:
        trees: the shape for each sequence; an empty tree drafts nothing.
        tokens: [B, N] long; entries past a tree's size are padding.
        rows: [B, N+1, V]; row 0 is at the root, row i+1 after node i: what the children there were drawn
            from. Rows that nothing was drawn from are not read. None for point drafts.
        drawn: "iid", "without_replacement", "top_and_one" (the last of some siblings was drawn from the row
            without the others, which are a deterministic function of the context), or "point" (all are).
    """

    trees: tuple[Tree, ...]
    tokens: Tensor
    rows: Tensor | None
    drawn: Drawn

    def to(self, device: torch.device) -> Draft:
        """The same draft with its tensors on `device`."""
        rows = None if self.rows is None else self.rows.to(device)
        return Draft(self.trees, self.tokens.to(device), rows, self.drawn)


@dataclass(frozen=True)
class Law:
    """The exact distribution of a verification's outcome.

    Attributes:
        stop: [B, N+1]; probability that verification stops at the root (0) or at node i (i+1); sums to 1.
        next: from nodes [B] (0 root, i+1 node i) to [B, V]: law of the one extra token drawn there.
    """

    stop: Tensor
    next: Callable[[Tensor], Tensor]


class Step(NamedTuple):
    """One outcome: the accepted nodes from the root down, and the one extra token."""

    path: tuple[int, ...]
    token: int


class Use(NamedTuple):
    """What a random decision is for; decisions for different uses never share a number."""

    number: int
    name: str


PROPOSE, STOP, EXTRA = Use(0, "propose"), Use(1, "stop"), Use(2, "extra")
# The one use that is shared on purpose: drafter and verifier race their rows under the same key.
GUMBEL = Use(3, "gumbel")


class Key(NamedTuple):
    """Names one random decision: nothing else enters, so batch mates and order do not matter.

    Attributes:
        seed: of the sequence.
        root: position of the last committed token when the step began. A later step has a larger one,
            so no decision is ever made twice with the same number, whatever was rejected in between. For
            GUMBEL it is the position of the token before the one decided, drafted or not, so that a
            position that was rejected is decided with the same noise again.
        use: proposal, stop or extra token; or the noise that proposals share with verification.
        part: which one, where a step makes several decisions for the same use.
    """

    seed: int
    root: int
    use: Use
    part: int = 0


@dataclass(frozen=True)
class Output:
    """Result of a forward pass: logits [B, rows, V] as asked (see `Backend.forward`)."""

    logits: Tensor


class Noise(Protocol):
    """The only source of randomness."""

    def choose(self, rows: Tensor, keys: Sequence[Key]) -> Tensor:
        """Draw one index from each row [M, V] (nonnegative, sum 1) under its key; [M] long."""


class Backend(Protocol):
    """A model whose state can be rolled back. All KV arithmetic is in `keep`."""

    vocabulary: int
    context: int

    def forward(self, batch: Batch, draft: Draft, start: Sequence[int] | None = None) -> Output:
        """Score the draft below each sequence's root, first catching up on committed tokens.

        Logits are [B, N+1, V]: the root's row, then the nodes'. A drafter that grows a tree gives `start`:
        how many of these rows were scored since the last `keep`, for each sequence (all 0 or all positive).
        Only later ones are computed; logits are then [B, most new rows, V], beginning with row `start[b]`.
        Positions of nodes are depths, never slots. An empty draft is how a prompt is prefilled.
        """

    def keep(self, batch: Batch, paths: Sequence[Sequence[int]]) -> None:
        """After the commit: keep the entries of the accepted nodes, contiguous; drop all other nodes."""

    def free(self, batch: Batch) -> None:
        """Forget these sequences; unknown ones are ignored."""


class Drafter(Protocol):
    """Proposes tokens together with the rows they were really drawn from.

    Attributes:
        drawn: how its tokens are drawn, "point" if it drafts nothing.
        chains: whether every tree it returns is a chain.
    """

    drawn: Drawn
    chains: bool

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """At most `budget[b]` nodes for sequence b, 0 included."""

    def observe(self, batch: Batch, steps: Sequence[Step], output: Output) -> None:
        """The commit: roll back what was rejected. Zero-draft and fully accepted steps come here too."""

    def free(self, batch: Batch) -> None:
        """Forget these sequences; unknown ones are ignored."""
