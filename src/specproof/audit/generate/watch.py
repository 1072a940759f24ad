"""What `generate` drafts and accepts, seen from beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Watched:
    """Counts, of all texts so far.

    Attributes:
        drafted, accepted: tokens that candidate generators gave, and how many of them were kept.
        forwards, wide: of the model during one text, and rows in them beyond one each; the first is the prompt's.
        generators: how many candidate generators were made.
        told: drafted and accepted tokens of one text, by a loop that says so itself.
    """

    drafted: int = 0
    accepted: int = 0
    forwards: int = 0
    wide: int = 0
    generators: int = 0
    told: tuple[int, int] | None = None

    def text(self, tokens: int) -> None:
        """A text of so many tokens is done; without candidate generators its forwards tell what was drafted."""
        if self.told is not None:
            self.drafted, self.accepted = self.drafted + self.told[0], self.accepted + self.told[1]
        elif not self.generators:
            self.drafted += self.wide
            self.accepted += min(self.wide, max(0, tokens - self.forwards))
        self.forget()

    def forget(self) -> None:
        """What the model ran over until now was not of a text with speculation."""
        self.forwards = self.wide = 0
        self.told = None

    def forward(self, rows: int) -> None:
        """The model ran over so many rows."""
        self.wide += rows - 1 if self.forwards else 0
        self.forwards += 1


@contextmanager
def watched(model: Any) -> Iterator[Watched]:
    """Watch a model's `generate` for as long as this lasts; nothing in it is changed."""
    counts = Watched()
    make = model._get_candidate_generator

    def made(*args: Any, **kwargs: Any) -> Any:
        generator = make(*args, **kwargs)
        counts.generators += 1
        give, learn = generator.get_candidates, generator.update_candidate_strategy

        def get_candidates(input_ids: Any, *rest: Any, **more: Any) -> Any:
            found = give(input_ids, *rest, **more)
            counts.drafted += int(found[0].shape[1] - input_ids.shape[1])
            return found

        def update_candidate_strategy(input_ids: Any, scores: Any, num_matches: Any) -> Any:
            counts.accepted += int(num_matches)
            return learn(input_ids, scores, num_matches)

        generator.get_candidates = get_candidates
        generator.update_candidate_strategy = update_candidate_strategy
        return generator

    def before(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        if ids is not None:
            counts.forward(int(ids.shape[-1]))

    hook = model.register_forward_pre_hook(before, with_kwargs=True)
    model._get_candidate_generator = made
    try:
        yield counts
    finally:
        del model._get_candidate_generator
        hook.remove()
