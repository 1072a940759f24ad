"""The nouns of the project and its protocols. No torch at run time, so that `--help` stays quick.

What is not here: how a rule decides (`rules`), how a model is run (`backends`), how text stops (`stopping`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from specproof.params import SamplingParams as SamplingParams
from specproof.tree import Tree

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Drawn = Literal["iid", "without_replacement", "top_and_one", "point"]
FinishReason = Literal["stop", "length", "error", "cancelled"]


@dataclass(eq=False)
class TokenSequence:
    """One text in the making: what every part of the loop reads and only `commit` writes.

    Attributes:
        tokens: prompt and committed tokens; the last one is the root of the next draft.
        prompt_length: how many of them are the prompt.
        params: how it is sampled.
        seed: what its noise is keyed by; equal to `params.seed` where that was given.
        ends: tokens that end it.
        processors: what its parameters do to logits before temperature; see `sampling.compile`.
        finish_reason: None while it runs.
    """

    tokens: list[int]
    prompt_length: int
    params: SamplingParams
    seed: int
    ends: frozenset[int] = frozenset()
    processors: tuple[Processor, ...] = ()
    finish_reason: FinishReason | None = None

    @property
    def output(self) -> list[int]:
        """Committed tokens after the prompt."""
        return self.tokens[self.prompt_length :]


Batch = Sequence[TokenSequence]


@dataclass(frozen=True)
class Contexts:
    """What stands before each of some rows of one sequence.

    Attributes:
        sequence: with the committed tokens.
        tree, drafted: the draft below its root, and the token of each node.
        first: number of the first of these rows; row 0 is at the root, row i+1 after node i.
    """

    sequence: TokenSequence
    tree: Tree
    drafted: Sequence[int]
    first: int = 0

    def path(self, row: int) -> list[int]:
        """Drafted tokens between the root and a row, which is counted from `first`."""
        return [self.drafted[node] for node in self.tree.path(self.first + row - 1)]

    def tokens(self, row: int) -> list[int]:
        """Everything before a row: prompt, output and drafted path."""
        return self.sequence.tokens + self.path(row)


# From logits [R, V] of one sequence's rows to other logits [R, V], float32 or better; may change its argument.
Processor = Callable[["Tensor", Contexts], "Tensor"]


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
        drawn: how its tokens are drawn, "point" if it drafts nothing. Where all texts of a batch are greedy it may
            give points whatever this says, see `may_draw`.
        chains: whether every tree it returns is a chain.
        pure: may be left out, and is False then: whether its drafts are a function of the text so far, neither of
            noise nor of other texts. Audits bet on such drafts whatever the rule.
    """

    drawn: Drawn
    chains: bool

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """At most `budget[b]` nodes for sequence b, 0 included."""

    def observe(self, batch: Batch, steps: Sequence[Step], output: Output) -> None:
        """The commit: roll back what was rejected. Zero-draft and fully accepted steps come here too."""

    def free(self, batch: Batch) -> None:
        """Forget these sequences; unknown ones are ignored."""


def greedy(texts: Iterable[SamplingParams]) -> bool:
    """Whether texts with these parameters are all at temperature 0."""
    return all(params.temperature == 0 for params in texts)


def may_draw(drafter: Drafter, texts: Iterable[SamplingParams]) -> tuple[Drawn, ...]:
    """How a draft for texts with these parameters may be drawn.

    As the drafter says. A greedy text is the same whatever is drafted, so there the likeliest tokens may take the
    place of drawn ones.
    """
    return (drafter.drawn, "point") if greedy(texts) else (drafter.drawn,)
