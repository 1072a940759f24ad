"""Plain autoregressive decoding, written naively: the reference that the engine is compared with.

One token at a time, the whole context recomputed for each, no cache, no batch.
"""

from collections.abc import Callable

from torch import Tensor

from specproof.sampling import warp_next
from specproof.stopping import commit, room
from specproof.types import EXTRA, Key, Noise, TokenSequence, Use


def decode(
    logits: Callable[[list[int]], Tensor],
    sequence: TokenSequence,
    noise: Noise,
    context: int = 1 << 30,
    use: Use = EXTRA,
    stopped: Callable[[TokenSequence], bool] | None = None,
) -> list[int]:
    """Finish a sequence in place and return its output.

    Args:
        logits: from the tokens so far to the next token's logits [V].
        sequence: with its prompt and parameters.
        noise: draws each token under the key that the engine uses for the extra token at this root.
        context, stopped: as in `stopping.commit`.
        use: EXTRA, or GUMBEL for the text that rule "coupling" gives.
    """
    if room(sequence, context) == 0:
        commit(sequence, [], context)
    while sequence.finish_reason is None:
        row = warp_next(logits(sequence.tokens), sequence)
        token = noise.choose(row[None], [Key(sequence.seed, len(sequence.tokens) - 1, use)])
        commit(sequence, token.tolist(), context, stopped)
    return sequence.output
