"""New weights for an engine between two steps: nothing of the old weights' keys and values is ever read again.

Requests that run go on: the tokens they have stay, everything computed from them is forgotten and read again with
the new weights. Each token then was drawn from one target, its log-probabilities are that target's, and the
request's `updates` say where one target took over from the other. Whoever wants texts of one target only updates
when nothing runs, or cancels first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from specproof.backends.hf import HFBackend
from specproof.engine.drafting import Drafting
from specproof.engine.requests import Request
from specproof.engine.scheduler import Scheduler
from specproof.engine.stats import Statistics
from specproof.engine.weights import Weights, load, module_of, own_state, shared
from specproof.errors import SpecproofError
from specproof.types import Backend, Drafter

MANY = 1000  # drafted tokens from which on acceptance says something
_FALL = 0.75  # of what acceptance was before new weights; below is a fall


class Counts(NamedTuple):
    """Drafted and accepted tokens since some moment."""

    drafted: int = 0
    accepted: int = 0

    def since(self, before: Counts) -> Counts:
        """What was added to an earlier count."""
        return Counts(self.drafted - before.drafted, self.accepted - before.accepted)


class Synced:
    """The part of an engine that takes new weights; `Engine` has it.

    Attributes:
        target_version, drafter_version: 0 for the weights it was built with, then counted, or as the caller says.
    """

    target: Backend
    drafter: Drafter
    drafting: Drafting
    scheduler: Scheduler
    stats: Statistics
    target_version = 0
    drafter_version = 0
    _synced = Counts()  # when weights last changed
    _before = Counts()  # between the change before and that one

    def update_target(self, weights: Weights, version: int | None = None) -> int:
        """Give the target new weights; returns their version. To be called between steps, where steps are.

        A drafter that drafts with weights of the target's has new ones too, and a new version.

        Args:
            weights: a state dict or a module; see `weights.load`. The engine's own module, if it was trained in
                place since the last step.
            version: the next number if not given.

        Raises:
            SpecproofError: they do not fit; then nothing has changed.
        """
        model = module_of(self.target)
        if model is None:
            raise SpecproofError(f"a {type(self.target).__name__} takes no weights; give a transformers model")
        version = _next(self.target_version, version, "target")
        load(model, weights, "target")
        self.target_version = version
        drafter = module_of(self.drafter)
        if drafter is not None and shared(drafter, model):
            self.drafter_version += 1
        self._changed()
        return version

    def update_drafter(self, weights: Weights, version: int | None = None) -> int:
        """Give the drafter new weights, whatever is the target's among them left alone; arguments as above.

        The law of what comes out is the target's before and after.

        Raises:
            SpecproofError: they do not fit, or the drafter has none of its own; then nothing has changed.
        """
        module, model = module_of(self.drafter), module_of(self.target)
        if module is None:
            raise SpecproofError(f"a {type(self.drafter).__name__} has no weights; only the target takes new ones")
        if model is not None and len(shared(module, model)) == len(own_state(module)):
            raise SpecproofError(
                f"a {type(self.drafter).__name__} drafts with the target's own weights; update_target changes both"
            )
        version = _next(self.drafter_version, version, "drafter")
        load(module, weights, "drafter", leave=model)
        self.drafter_version = version
        self._changed()
        return version

    def alarm(self) -> str | None:
        """What is strange about acceptance since weights last changed; None if nothing is, or little was drafted.

        The law does not depend on it. It is how a drafter shows that was never synced, or drafts that are not
        verified.
        """
        now, before = self._counts(), self._before
        if now.drafted < MANY:
            return None
        if now.accepted in (0, now.drafted):
            look = "does the drafter differ from the target?" if now.accepted else "is the drafter for this model?"
            share = now.accepted // now.drafted
            return f"acceptance is exactly {share} over {now.drafted} drafted tokens: {look}"
        after, was = now.accepted / now.drafted, before.accepted / max(1, before.drafted)
        if before.drafted >= MANY and after < _FALL * was:
            return (
                f"acceptance fell from {was:.2f} to {after:.2f} with new weights (target version "
                f"{self.target_version}, drafter version {self.drafter_version}): was the drafter synced?"
            )
        return None

    def _counts(self) -> Counts:
        return Counts(self.stats.drafted, self.stats.accepted).since(self._synced)

    def _changed(self) -> None:
        """What was computed with other weights is forgotten, the drafter's part too; requests learn of it."""
        requests = [*self.scheduler.running, *self.scheduler.waiting]
        self._forget(requests)
        if isinstance(self.target, HFBackend):
            self.target.clear()  # other engines may run on it
        for request in requests:
            request.weighed(self.target_version, self.drafter_version)
        if (now := self._counts()).drafted:
            self._before, self._synced = now, Counts(self.stats.drafted, self.stats.accepted)

    def _forget(self, requests: Sequence[Request]) -> None:
        self.target.free([request.sequence for request in requests])
        self.drafting.free(requests)


def _next(current: int, version: int | None, kind: str) -> int:
    if version is not None and version <= current:
        raise SpecproofError(f"version {version} is not allowed: the {kind} has {current}; give a larger one")
    return current + 1 if version is None else version
