"""The verifier of transformers' assisted generation: `generation.utils._speculative_sampling`."""

import inspect

import torch
from torch import Tensor

from specproof.audit.adaptors import installed
from specproof.audit.adaptors.coins import Coins, coins_in
from specproof.errors import SpecproofError


class Transformers:
    """Called as `generate` calls it; seen to work with 5.24.0.

    The function is private and its parameters have changed between releases, so they are bound by name; one
    that is not known here and has no default is an error.
    """

    name = "transformers"
    package = "transformers"

    def __init__(self, ensemble_weight: float | None = None) -> None:
        """`ensemble_weight` in (0, 1) turns on the package's own lossy mode, which an audit must fail."""
        self.module, self.version = installed(self.package, "transformers.generation.utils")
        function = getattr(self.module, "_speculative_sampling", None)
        if function is None:
            raise SpecproofError(f"transformers {self.version} has no generation.utils._speculative_sampling")
        self.function = function
        self.parameters = inspect.signature(function).parameters
        self.ensemble_weight = ensemble_weight
        known = self._arguments(torch.ones(2, 1), torch.ones(1, 1), torch.zeros(1, dtype=torch.long))
        for name, parameter in self.parameters.items():
            if name not in known and parameter.default is inspect.Parameter.empty:
                raise SpecproofError(
                    f"_speculative_sampling of transformers {self.version} needs {name!r}, unknown to the adaptor"
                )
        if ensemble_weight is not None and "assistant_ensemble_weight" not in self.parameters:
            raise SpecproofError(f"transformers {self.version} has no assistant_ensemble_weight; leave it out")

    def verify(self, target: Tensor, drawn: Tensor, tokens: Tensor, coins: Coins) -> list[int]:
        """See `Adaptor.verify`."""
        arguments = self._arguments(target, drawn, tokens)
        with coins_in(self.module, coins):
            committed, _ = self.function(**{k: v for k, v in arguments.items() if k in self.parameters})
        return committed[0].tolist()  # type: ignore[no-any-return]

    def _arguments(self, target: Tensor, drawn: Tensor, tokens: Tensor) -> dict[str, object]:
        """Every parameter that a release has had, by name."""
        context = tokens.new_zeros(1)  # drafted tokens stand at the end of the text
        return {
            "candidate_input_ids": torch.cat([context, tokens])[None],
            "candidate_logits": drawn.log()[None],
            "candidate_length": len(tokens),
            "new_logits": target.log()[None],
            "is_done_candidate": False,
            "last_assistant_token_is_eos": False,
            "max_matches": len(tokens),
            "assistant_ensemble_weight": self.ensemble_weight,
        }
