"""Slopes of t^count between points of [0, 1], as sums of products: nothing cancels, nothing is divided."""

import torch
from torch import Tensor


def chord(low: Tensor, high: Tensor, count: Tensor) -> Tensor:
    """(high^count - low^count) / (high - low), also where both are equal; all broadcast to `low`."""
    value, power = torch.ones_like(low), torch.ones_like(low)
    for degree in range(1, _largest(count)):
        power = power * low
        value = torch.where(degree < count, high * value + power, value)
    return value


def bend(low: Tensor, middle: Tensor, high: Tensor, count: Tensor) -> Tensor:
    """chord(middle, high) - chord(low, middle) for low <= middle <= high; all broadcast to `low`."""
    value, inner, power = torch.zeros_like(low), torch.ones_like(low), torch.ones_like(low)
    for degree in range(1, _largest(count)):
        value = torch.where(degree < count, high * value + inner, value)
        power = power * low
        inner = middle * inner + power  # the lower chord, one degree less
    return value * (high - low)


def _largest(count: Tensor) -> int:
    return int(count.max()) if count.numel() else 0
