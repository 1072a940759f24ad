"""The texts of a file as they are scored: with their parameters, their ends, and whose prompt they share."""

from __future__ import annotations

from typing import NamedTuple

from specproof.audit.rollouts.plan import RolloutPlan
from specproof.audit.rollouts.policy import Policy, params_of, whole_output
from specproof.audit.rollouts.read import Rollout, Rollouts
from specproof.errors import SpecproofError
from specproof.types import SamplingParams, TokenSequence

# So many texts do not end alike by chance.
_MANY = 8


class Text(NamedTuple):
    """A text that is to be scored: as it was read, before its first token, with its end, and whose prompt."""

    read: Rollout
    start: TokenSequence
    output: list[int]
    group: int


def texts_of(rollouts: Rollouts, policy: Policy, params: SamplingParams | None, plan: RolloutPlan) -> list[Text]:
    """As many texts as the plan asks for.

    Raises:
        SpecproofError: texts of several versions, parameters that are missing or not known, ends that are not.
    """
    versions = sorted({text.target_version for text in rollouts.texts if text.target_version is not None})
    if len(versions) > 1:
        raise SpecproofError(
            f"the texts are of target versions {', '.join(map(str, versions))}; give one version's, with its model"
        )
    found: list[Text] = []
    groups: dict[tuple[tuple[int, ...], str], int] = {}
    tokens = 0
    for text in rollouts.texts:
        if text.params is None and params is None:
            raise SpecproofError(
                f"text {text.sample} of prompt {text.prompt} has no params, so its law is not known; give them "
                "with --params, as in '{\"temperature\": 0.7}'"
            )
        asked = params if params is not None else params_of(text.params or {})
        limited = params is None and bool({"max_tokens", "max_new_tokens"} & set(text.params or ()))
        start = policy.start(text.prompt_ids, asked)
        output, _ = whole_output(text, start, limited)
        group = groups.setdefault((text.prompt_ids, repr(asked)), len(groups))
        found.append(Text(text, start, output, group))
        tokens += len(output)
        if tokens >= plan.tokens:
            break
    _check_ends(found)
    return found


def _check_ends(texts: list[Text]) -> None:
    """Raise if texts seem to end with a token of which the model does not know that it ends texts."""
    last = [t.read.completion_ids[-1] for t in texts if t.read.completion_ids and len(t.output) > _written(t)]
    if len(last) >= _MANY and len(set(last)) == 1:
        raise SpecproofError(
            f"all {len(last)} texts that stopped end with token {last[0]}, which is no end token of the model: "
            f'give it in params as "stop_token_ids": [{last[0]}], or add the end token that was left out after it'
        )


def _written(text: Text) -> int:
    return len(text.read.completion_ids)
