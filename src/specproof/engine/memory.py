"""Telling a lack of memory from other failures."""

import torch

# How torch and its libraries say it in errors that have no type of their own.
_WORDS = ("not enough memory", "can't allocate memory", "out of memory", "cublas_status_alloc_failed")


def out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: on an accelerator, or in torch's or Python's own allocation on the host."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in text for words in _WORDS)
