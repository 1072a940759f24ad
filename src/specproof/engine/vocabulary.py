"""Whether two tokenizers have the same tokens, and which ones they share."""

from __future__ import annotations

import json
from typing import Any

from specproof.drafters.vocabulary import SharedVocabulary
from specproof.errors import SpecproofError
from specproof.types import Backend

VOCABULARIES = ("same", "intersection")


def in_target_tokens(draft: Backend, size: int, target: Any, own: Any, vocabulary: str = "same") -> Backend:
    """The draft model as a backend of the target's vocabulary.

    Args:
        draft: the draft model.
        size: number of the target model's tokens, padding included.
        target, own: tokenizers of target and draft model.
        vocabulary: one of VOCABULARIES; "same" takes tokenizers of the same tokens (models may be padded to
            other sizes), "intersection" any: tokens that both have are drafted.

    Raises:
        SpecproofError: the tokens differ, or none is shared.
    """
    if vocabulary == "same":
        check_same_tokens(target, own)
        if draft.vocabulary == size:
            return draft
    shared = None if vocabulary == "same" else shared_tokens(target, own)

    def spell(token: int) -> list[int]:
        return list(own.encode(target.decode([token]), add_special_tokens=False))

    return SharedVocabulary(draft, size, shared, spell, _fallback(draft, own))


def check_same_tokens(target: Any, draft: Any) -> None:
    """Raise if a number stands for two texts or a text has two numbers, naming the first that differs.

    A token that only one of them has is no contradiction: padding, and tokens added later.
    """
    ours, theirs = target.get_vocab(), draft.get_vocab()
    there = {number: text for text, number in theirs.items()}
    for text, number in sorted(ours.items(), key=lambda item: item[1]):
        if there.get(number, text) != text or theirs.get(text, number) != number:
            raise SpecproofError(
                f"the draft model's tokenizer differs from the target's: token {number} {text!r} is "
                f"{theirs.get(text, 'absent')} there; give a draft model with the target's tokenizer, "
                "or vocabulary='intersection' (--draft-vocabulary intersection)"
            )


def shared_tokens(target: Any, draft: Any) -> dict[int, int]:
    """From target to draft token, for tokens of the same text.

    Tokenizers that are decoded alike (all byte-level ones, say) write a text alike, and their entries are
    compared. Others ("Ġthe", "▁the") are compared by what a token adds to a text; pieces of characters are
    then not shared.
    """
    alike = (family := _family(target)) is not None and family == _family(draft)
    ours, theirs = (tok.get_vocab() if alike else _added_texts(tok) for tok in (target, draft))
    return {number: theirs[text] for text, number in ours.items() if text in theirs}


def _family(tokenizer: Any) -> list[str] | None:
    """Kinds of the steps that decode; None for a tokenizer that does not tell."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    if inner is None:
        return None
    decoder = json.loads(inner.to_str())["decoder"] or {"type": "none"}
    return [step["type"] for step in decoder.get("decoders", [decoder])]


def _added_texts(tokenizer: Any) -> dict[str, int]:
    """What each token adds behind another one, to its number; the smallest one where several add the same.

    Behind another one: at the beginning of a text some decoders drop a space.
    """
    before = tokenizer.encode("a", add_special_tokens=False)
    known = tokenizer.decode(before)
    texts: dict[str, int] = {}
    for number in sorted(tokenizer.get_vocab().values()):
        whole = tokenizer.decode([*before, number], clean_up_tokenization_spaces=False)
        text = whole.removeprefix(known)
        if whole.startswith(known) and text and "\ufffd" not in text:
            texts.setdefault(text, number)
    return texts


def _fallback(draft: Backend, tokenizer: Any) -> int:
    """What stands for a token without a text: unknown, else the end of a text, else the first token."""
    for number in (tokenizer.unk_token_id, tokenizer.eos_token_id):
        if number is not None and number < draft.vocabulary:
            return int(number)
    return 0
