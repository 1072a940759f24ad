"""For those who stay in transformers: `model.generate(..., custom_generate=specproof.hf.generate)`.

transformers prepares inputs, logits processors and stopping criteria as it does for its own loop; here they are
taken over by the engine. What cannot be honoured is refused (`fields`).
"""

from specproof.hf.decode import Generated, generate

__all__ = ["Generated", "generate"]
