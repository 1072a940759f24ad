"""What a request may ask for: SamplingParams, with the names that vLLM and OpenAI use."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

from specproof.errors import SpecproofError

if TYPE_CHECKING:
    from torch import Tensor

# From the tokens so far (prompt, output and drafted path) and the next token's logits [V] to other logits [V].
CustomProcessor = Callable[[list[int], "Tensor"], "Tensor"]
# What an output can be asked to be.
Structure = Literal["json_schema", "regex", "grammar"]


# What the annotation of a numeric field asks for; `from __future__ import annotations` keeps it as text.
_NUMBERS: dict[str, type] = {"int": Integral, "int | None": Integral, "float": Real}


@dataclass(frozen=True)
class SamplingParams:
    """How the next token is drawn from the model's logits, and when to stop.

    The meaning and the order of the filters are those of transformers' logits processors: bias, penalties,
    bad words, min_tokens, own processors, structure, temperature, top-k, top-p, min-p. The command line derives
    its flags from these fields.

    Attributes:
        temperature, top_k, top_p, min_p: which part of the model's law is kept, and how sharp.
        repetition_penalty: divides positive and multiplies negative logits of tokens in prompt or output.
        presence_penalty, frequency_penalty: taken from the logits of output tokens, once or per occurrence.
        logit_bias: added to the logits of these tokens.
        bad_words: sequences of tokens that must not come out, also not where the prompt begins one; or texts,
            which stand for the tokens that the tokenizer makes of them, alone and after a space.
        min_tokens, max_tokens: length of the output; nothing ends the text before min_tokens.
        stop: texts that end the output, which leaves them out.
        stop_token_ids: further tokens that end a text, as the end-of-text token does.
        ignore_eos: the end-of-text token is a token like any other.
        seed: of the first completion; the others' seeds are derived from it.
        n: completions for each prompt.
        logprobs: report log-probabilities of the output, and of this many of the likeliest other tokens.
        prompt_logprobs: the same for the prompt, under the raw model.
        json_schema, regex, grammar: what the whole output is: JSON of a schema, a text that the expression
            matches, or a text of a grammar in Lark's notation. At most one of them.
        processors: own functions over (context, logits), called for every position, drafted ones included.
    """

    temperature: float = field(default=1.0, metadata={"help": "0 takes the most likely token"})
    top_k: int = field(default=0, metadata={"help": "keep the k most likely tokens; 0 keeps all"})
    top_p: float = field(default=1.0, metadata={"help": "keep the smallest set with this much mass"})
    min_p: float = field(default=0.0, metadata={"help": "drop tokens below this share of the largest"})
    repetition_penalty: float = field(default=1.0, metadata={"help": "above 1: seen tokens are less likely"})
    presence_penalty: float = field(default=0.0, metadata={"help": "taken from logits of tokens in the output"})
    frequency_penalty: float = field(default=0.0, metadata={"help": "the same for each time they occurred"})
    logit_bias: Mapping[int, float] = field(
        default_factory=dict, metadata={"help": "TOKEN:BIAS added to a token's logit; may be repeated"}
    )
    bad_words: tuple[str | tuple[int, ...], ...] = field(
        default=(), metadata={"help": "text that must not come out; may be repeated"}
    )
    min_tokens: int = field(default=0, metadata={"help": "nothing ends the text before this many tokens"})
    max_tokens: int = field(default=128, metadata={"help": "most tokens to generate"})
    stop: tuple[str, ...] = field(default=(), metadata={"help": "text that ends the output; may be repeated"})
    stop_token_ids: tuple[int, ...] = field(
        default=(), metadata={"help": "number of a token that ends the text; may be repeated"}
    )
    ignore_eos: bool = field(default=False, metadata={"help": "go on after the end-of-text token"})
    seed: int | None = field(default=None, metadata={"help": "same seed, same text; drawn afresh if not given"})
    n: int = field(default=1, metadata={"help": "completions for each prompt"})
    logprobs: int | None = field(
        default=None, metadata={"help": "report log-probabilities, with this many likely tokens beside each"}
    )
    prompt_logprobs: int | None = field(default=None, metadata={"help": "the same for the prompt's tokens"})
    json_schema: str | Mapping[str, Any] | None = field(
        default=None, metadata={"help": "the output is JSON of this schema, a file or its text"}
    )
    regex: str | None = field(default=None, metadata={"help": "the output matches this regular expression"})
    grammar: str | None = field(
        default=None, metadata={"help": "the output is a text of this grammar, a file in Lark's notation"}
    )
    processors: tuple[CustomProcessor, ...] = ()

    def __post_init__(self) -> None:
        def need(ok: bool, name: str, allowed: str) -> None:
            if not ok:
                raise SpecproofError(f"{name}={getattr(self, name)!r} is not allowed: give {allowed}")

        for own in fields(self):
            value, kind = getattr(self, own.name), _NUMBERS.get(str(own.type))
            if kind is not None and (value is not None or "None" not in str(own.type)):
                sound = isinstance(value, kind) and not isinstance(value, bool)
                need(sound, own.name, "a whole number" if kind is Integral else "a number")
        for name in ("bad_words", "stop", "stop_token_ids", "processors"):
            need(not isinstance(getattr(self, name), str), name, "a list, not a single text")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        words = self.bad_words
        need(all(isinstance(word, (str, list, tuple)) for word in words), "bad_words", "texts, or lists of tokens")
        object.__setattr__(self, "bad_words", tuple(w if isinstance(w, str) else tuple(w) for w in words))
        need(0 <= self.temperature < math.inf, "temperature", "a finite number >= 0 (0 is greedy)")
        need(self.top_k >= 0, "top_k", "a whole number >= 0 (0 keeps all)")
        need(0 < self.top_p <= 1, "top_p", "a number in (0, 1] (1 keeps all)")
        need(0 <= self.min_p <= 1, "min_p", "a number in [0, 1] (0 keeps all)")
        need(0 < self.repetition_penalty < math.inf, "repetition_penalty", "a finite number > 0 (1 is none)")
        need(math.isfinite(self.presence_penalty), "presence_penalty", "a finite number (0 is none)")
        need(math.isfinite(self.frequency_penalty), "frequency_penalty", "a finite number (0 is none)")
        biases = self.logit_bias.items()
        sound = all(isinstance(t, int) and t >= 0 and math.isfinite(b) for t, b in biases)
        need(sound, "logit_bias", "tokens (whole numbers >= 0) with finite biases")
        need(all(self.bad_words), "bad_words", "words that are not empty")
        need(self.max_tokens >= 0, "max_tokens", "a whole number >= 0")
        need(0 <= self.min_tokens <= self.max_tokens, "min_tokens", f"0 to max_tokens, here {self.max_tokens}")
        need(all(isinstance(text, str) and text for text in self.stop), "stop", "texts that are not empty")
        need(all(isinstance(t, int) for t in self.stop_token_ids), "stop_token_ids", "whole numbers")
        need(self.seed is None or 0 <= self.seed < 2**64, "seed", "a whole number in [0, 2**64)")
        need(self.n >= 1, "n", "a whole number >= 1")
        need(self.logprobs is None or self.logprobs >= 0, "logprobs", "a whole number >= 0, or None")
        need(self.prompt_logprobs is None or self.prompt_logprobs >= 0, "prompt_logprobs", "a number >= 0")
        need(isinstance(self.json_schema, (str, Mapping, NoneType)), "json_schema", "its text or a mapping")
        need(isinstance(self.regex, (str, NoneType)), "regex", "a text")
        need(isinstance(self.grammar, (str, NoneType)), "grammar", "a text")
        if len(given := self.structure) > 1:
            raise SpecproofError(f"{' and '.join(given)} are not allowed together: give one of them")

    @property
    def structure(self) -> dict[Structure, str | Mapping[str, Any]]:
        """What the output has to be, by the parameter that says so: at most one."""
        values: dict[Structure, str | Mapping[str, Any] | None]
        values = {"json_schema": self.json_schema, "regex": self.regex, "grammar": self.grammar}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_dict(cls, values: dict[str, object]) -> SamplingParams:
        """Build from a dictionary; an unknown key is an error, never ignored."""
        known = {f.name for f in fields(cls)}
        for key in values:
            if key not in known:
                raise SpecproofError(f"unknown sampling parameter {key!r}; known: {', '.join(sorted(known))}")
        return cls(**values)  # type: ignore[arg-type]
