"""One completion with all that training and an audit need to know of it, in a form that files keep."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from specproof.errors import SpecproofError
from specproof.params import SamplingParams


@dataclass(frozen=True)
class Trajectory:
    """A sample of a prompt, drawn from the target.

    Attributes:
        prompt, sample: number of the prompt in its file or list, and of the sample of that prompt.
        prompt_ids, completion_ids: tokens; the one that ended the completion is the last.
        finish_reason: "stop", "length", "cancelled" or "error".
        seed: what its noise was keyed by.
        logprobs: of each token of the completion, natural, under the law it was drawn from: after temperature,
            filters, penalties and bans.
        raw_logprobs: log softmax(logits / temperature) and nothing else; at temperature 0 of the logits.
        target_version, drafter_version: of the weights that it began with.
        params: sampling parameters as `SamplingParams.from_dict` takes them; `seed` is the run's.
        rule, drafter, lossless: how it was verified and drafted; None for a rule that is not of RULES.
        drafted, accepted, forwards: drafted tokens, accepted ones, and target forwards that committed tokens.
        updates: where the target got new weights on the way: tokens before them, and their version. Empty for a
            trajectory of one policy.
        error: why it could not be finished.
    """

    prompt: int
    sample: int
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    finish_reason: str
    seed: int
    logprobs: tuple[float, ...]
    raw_logprobs: tuple[float, ...]
    target_version: int
    drafter_version: int
    params: dict[str, Any]
    rule: str
    drafter: str
    lossless: bool | None
    drafted: int
    accepted: int
    forwards: int
    updates: tuple[tuple[int, int], ...] = ()
    error: str | None = None

    def __post_init__(self) -> None:
        for name in ("prompt_ids", "completion_ids", "logprobs", "raw_logprobs"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "updates", tuple((int(place), int(version)) for place, version in self.updates))
        lengths = len(self.completion_ids), len(self.logprobs), len(self.raw_logprobs)
        if len(set(lengths)) > 1:
            raise SpecproofError(f"tokens, logprobs and raw_logprobs are {lengths}; give as many of each")

    @property
    def sampling(self) -> SamplingParams:
        """The parameters, to be used again."""
        return SamplingParams.from_dict(dict(self.params))

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` gives the same trajectory back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Trajectory:
        """Read from JSON, or from a row of Parquet, where `params` is JSON text.

        Raises:
            SpecproofError: a field is missing or unknown.
        """
        names = [field.name for field in fields(cls)]
        if unknown := sorted(set(values) - set(names)):
            raise SpecproofError(f"unknown field {unknown[0]!r} of a trajectory; known: {', '.join(names)}")
        if missing := [name for name in names[: names.index("updates")] if name not in values]:
            raise SpecproofError(f"a trajectory lacks {missing[0]!r}; it has: {', '.join(sorted(values))}")
        params = values["params"]
        params = dict(json.loads(params) if isinstance(params, str) else params)
        if "logit_bias" in params:  # JSON has no other keys than texts
            params["logit_bias"] = {int(token): bias for token, bias in params["logit_bias"].items()}
        return cls(**{**values, "params": params})


def params_dict(params: SamplingParams) -> dict[str, Any]:
    """Every sampling parameter, for JSON.

    Raises:
        SpecproofError: it has own processors, which nothing but this process knows.
    """
    if params.processors:
        raise SpecproofError(
            "processors cannot be written down, so no trajectory can say what was drawn; drop them"
        )
    values = {field.name: getattr(params, field.name) for field in fields(params) if field.name != "processors"}
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return [_plain(one) for one in value] if isinstance(value, tuple) else value
