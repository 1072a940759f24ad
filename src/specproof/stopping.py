"""When a text ends. The one place that cuts a block: in commit order, first event wins."""

from collections.abc import Callable

from specproof.types import FinishReason, Step, TokenSequence


def room(sequence: TokenSequence, context: int) -> int:
    """Tokens that may still be committed before max_tokens or the context limit."""
    produced = len(sequence.tokens) - sequence.prompt_length
    return max(0, min(sequence.params.max_tokens - produced, context - len(sequence.tokens)))


def commit(
    sequence: TokenSequence,
    tokens: list[int],
    context: int,
    stopped: Callable[[TokenSequence], bool] | None = None,
) -> int:
    """Append a block of tokens up to the first end; returns how many were committed.

    An end token is committed as the last token; whatever follows it in the block is dropped. An end that fills
    the last place counts as a stop, not as running out of length.

    Args:
        sequence: grows in place; its `finish_reason` is set when it ends.
        tokens: the accepted tokens, then the extra one.
        context: most tokens a sequence may have, prompt included.
        stopped: asked after every token, whether its text just came to a stop string.
    """
    kept = 0
    reason: FinishReason | None = None
    for token in tokens[: room(sequence, context)]:
        sequence.tokens.append(token)
        kept += 1
        if (stopped is not None and stopped(sequence)) or token in sequence.ends:
            reason = "stop"
            break
    if reason is None and room(sequence, context) == 0:
        reason = "length"
    sequence.finish_reason = reason
    return kept


def cut(step: Step, kept: int) -> Step:
    """The part of a step that was committed: the path shortened to `kept` tokens."""
    return Step(step.path[:kept], step.token)
