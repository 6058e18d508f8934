"""Muon (Jordan et al. 2024) in float32.

``torch.optim.Muon`` orthogonalises in bfloat16, which a CPU without bfloat16 units does a hundred times slower.
"""

from collections.abc import Iterable

import torch

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic iteration that brings all singular values near one."""


def orthogonalise(matrix: torch.Tensor, iterations: int = 5) -> torch.Tensor:
    """A matrix (m, n) with the singular vectors of ``matrix`` and singular values of about one (Newton-Schulz)."""
    a, b, c = COEFFICIENTS
    x = matrix / (matrix.norm() + 1e-7)
    tall = len(x) > x.shape[1]
    x = x.T if tall else x
    for _ in range(iterations):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """Steps along the orthogonalised Nesterov momentum, for weight matrices (in, out) as GPT-2 stores them."""

    def __init__(
        self, matrices: Iterable[torch.Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.02
    ) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every matrix from its gradient."""
        for group in self.param_groups:
            rate, momentum = group["lr"], group["momentum"]
            for matrix in group["params"]:
                average = self.state[matrix].setdefault("average", torch.zeros_like(matrix))
                average.lerp_(matrix.grad, 1 - momentum)
                update = orthogonalise(matrix.grad.lerp(average, momentum))
                into, out = matrix.shape
                matrix.mul_(1 - rate * group["weight_decay"])
                matrix.add_(update, alpha=-rate * max(1, out / into) ** 0.5)
