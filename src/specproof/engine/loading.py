"""From a name or folder to an engine: model, tokenizer, drafter."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateError

from specproof.backends.hf import HFBackend
from specproof.drafters import HEADED, NODES, choose_drafter, usual_shape
from specproof.drafters.shapes.expand import Mixed
from specproof.drafters.shapes.named import Shape, named_shape
from specproof.engine.default_model import default_model
from specproof.engine.engine import Engine
from specproof.engine.heads import default_drafter, load_trained_head
from specproof.engine.shape import measured_shape
from specproof.engine.vocabulary import VOCABULARIES, in_target_tokens
from specproof.errors import SpecproofError, unknown
from specproof.rules import find_rule
from specproof.types import Backend, Drafter

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}


def load_engine(
    model: str = "default",
    *,
    drafter: str = "auto",
    draft_model: str | None = None,
    vocabulary: str = "same",
    shape: str | None = None,
    rule: str = "auto",
    dtype: str = "float32",
    device: str = "cpu",
    **options: Any,
) -> Engine:
    """An engine for a transformers model.

    Args:
        model: "default", a folder, or a name on the hub.
        drafter: a key of DRAFTERS, or "auto", see `default_drafter`; "model" needs `draft_model`.
        draft_model: folder or name of the smaller model, or of the head of one of HEADED, or file of the rollouts
            that "replay" drafts again;
            "eagle3" and "hybrid" without one take the head that comes with the package for this model.
        vocabulary: "same" takes a draft model with the target's tokenizer only, "intersection" any: it then drafts
            the tokens that both have, and the law is still the target's.
        shape: of the drafts, one of SHAPES, see `usual_shape` if not given; "sequoia" alone measures acceptance
            first, with a short run.
        rule: a key of RULES, or "auto".
        dtype: one of DTYPES, for both models.
        device: where both models live, in torch's words.
        options: further arguments of `Engine`.
    """
    drafter = default_drafter(model) if drafter == "auto" else drafter
    if vocabulary not in VOCABULARIES:
        raise unknown("vocabulary", vocabulary, VOCABULARIES)
    if vocabulary != "same" and (draft_model is None or drafter in HEADED):
        raise SpecproofError(
            f"vocabulary {vocabulary!r} needs a draft model: give one (--drafter model --draft-model FOLDER)"
        )
    loaded = load_model(model, dtype, device)
    tokenizer = load_tokenizer(model)
    head = load_trained_head(loaded, model, draft_model, drafter) if drafter in HEADED else None
    target = HFBackend(loaded, taps=head.taps if head is not None else ())
    draft: Backend | None = None
    past = draft_model if drafter == "replay" else None
    if draft_model is not None and head is None and past is None:
        own = load_tokenizer(draft_model)
        draft = HFBackend(load_model(draft_model, dtype, device))
        draft = in_target_tokens(draft, target.vocabulary, tokenizer, own, vocabulary)

    def make(shape: Shape | None) -> Drafter:
        return choose_drafter(
            drafter, target, draft, head=head, coupled=rule == "coupling", shape=shape, past=past
        )

    shape = shape or usual_shape(drafter, rule)
    depth = None if head is None else head.positions
    if shape == "sequoia":
        shape = measured_shape(target, make, tokenizer, depth)
    drawn = None if shape is None else _shape(shape, options.get("budget", NODES), depth, rule)
    engine = Engine(target, make(drawn), rule, tokenizer=tokenizer, eos=end_tokens(loaded, tokenizer), **options)
    engine.shape = shape
    return engine


def _shape(name: str, nodes: int, depth: int | None, rule: str) -> Shape:
    """See `named_shape`; the rule must take points too where greedy texts get them."""
    shape = named_shape(name, nodes, depth)
    if isinstance(shape.tree, Mixed) and rule != "auto":
        find_rule(rule).check("point", chain=False)
    return shape


def load_model(name: str, dtype: str = "float32", device: str = "cpu") -> Any:
    """A transformers model in evaluation mode. Weights in safetensors only: pickles are refused."""
    from transformers import AutoModelForCausalLM

    if dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)
    place = _place(name)
    try:
        model = AutoModelForCausalLM.from_pretrained(
            place, dtype=DTYPES[dtype], attn_implementation="sdpa", use_safetensors=True
        )
    except (OSError, ValueError) as error:
        raise _not_loaded("model", name, error) from error
    try:
        return model.to(device).eval()
    except (RuntimeError, AssertionError) as error:
        raise SpecproofError(f"device {device!r} cannot be used here: {str(error).splitlines()[0]}") from error


def load_tokenizer(name: str) -> Any:
    """The tokenizer of a model folder or hub name."""
    from transformers import AutoTokenizer

    place = _place(name)
    try:
        return AutoTokenizer.from_pretrained(place)
    except (OSError, ValueError) as error:
        raise _not_loaded("tokenizer", name, error) from error


def end_tokens(model: Any, tokenizer: Any) -> Collection[int]:
    """Tokens that end a text: the generation config's, else the tokenizer's."""
    ends = model.generation_config.eos_token_id
    if ends is None:
        ends = tokenizer.eos_token_id
    if ends is None:
        return ()
    return tuple(ends) if isinstance(ends, (list, tuple)) else (int(ends),)


def chat_tokens(tokenizer: Any, message: str) -> list[int]:
    """Tokens of one user message in the model's chat format; plain text where the model has none."""
    if tokenizer.chat_template is None:
        return list(tokenizer(message)["input_ids"])
    return messages_tokens(tokenizer, [{"role": "user", "content": message}])


def messages_tokens(tokenizer: Any, messages: list[dict[str, str]]) -> list[int]:
    """Tokens of a conversation in the model's chat format, up to where the model's answer begins.

    Raises:
        SpecproofError: the model has no chat format, or it does not take these messages.
    """
    if tokenizer.chat_template is None:
        raise SpecproofError("this model has no chat format; complete a plain prompt instead")
    try:
        encoded = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
    except TemplateError as error:
        raise SpecproofError(f"the model's chat format does not take these messages: {error}") from error
    return list(encoded["input_ids"])


def _place(name: str) -> str:
    if name == "default":
        return default_model()
    if (name.startswith((".", "/", "~")) or name.count("/") > 1) and not Path(name).expanduser().is_dir():
        raise SpecproofError(f"no model folder at {name!r}; give a folder, a hub name, or 'default'")
    return str(Path(name).expanduser()) if Path(name).expanduser().is_dir() else name


def _not_loaded(kind: str, name: str, error: Exception) -> SpecproofError:
    reason = str(error).strip().splitlines()[0]
    return SpecproofError(
        f"cannot load the {kind} of {name!r}: {reason} (give a folder, a hub name, or 'default')"
    )
