"""Telling a lack of memory from other failures."""

import torch


def out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: on an accelerator, or in torch's or Python's own allocation on the host."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return "not enough memory" in str(error) or "can't allocate memory" in str(error)
