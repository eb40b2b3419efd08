"""Train logistic regression with sample weights by Newton's steps; kept as an MLP without hidden layers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fairweight.models.mlp import MLP

PENALTY = 1.0  # half of it times the squared coefficients is added to the summed losses, as scikit-learn's default
STEPS, SMALL = 25, 1e-8
WIDEST = 600  # inputs that a Newton step is quick with
Floats = npt.NDArray[np.float64]


def fit_linear(inputs: Tensor, labels: Tensor, weights: Tensor | None) -> MLP:
    """Logistic regression of two classes, where each row counts its weight."""
    x = inputs.flatten(1).double().numpy()
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)  # [N, F + 1]
    y = labels.numpy().astype(np.float64)
    w = np.ones(len(y)) if weights is None else weights.double().numpy()
    ridge = np.full(x.shape[1], PENALTY)
    ridge[-1] = 1e-6  # the intercept is free
    beta = np.zeros(x.shape[1])
    loss = np.inf
    for _ in range(STEPS):
        score = x @ beta
        p = 1 / (1 + np.exp(-np.clip(score, -30, 30)))
        gradient = x.T @ (w * (p - y)) + ridge * beta
        curvature = (x * (w * np.maximum(p * (1 - p), 1e-6))[:, None]).T @ x + np.diag(ridge)
        step = np.linalg.solve(curvature, gradient)
        size, before = 1.0, loss
        while True:  # a whole step overshoots where classes are almost separable
            tried = beta - size * step
            loss = _loss(x, y, w, ridge, tried)
            if loss <= before or size < 1e-3:
                break
            size /= 2
        beta = tried
        if before - loss < SMALL * max(1.0, abs(loss)):
            break
    model = MLP(x.shape[1] - 1, 2, ())
    layer = model.layers[-1]
    assert isinstance(layer, torch.nn.Linear)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
        layer.weight[1] = torch.from_numpy(beta[:-1])
        layer.bias[1] = float(beta[-1])
    return model


def _loss(x: Floats, y: Floats, w: Floats, ridge: Floats, beta: Floats) -> float:
    score = x @ beta
    return float((w * (np.logaddexp(0, score) - y * score)).sum() + 0.5 * (ridge * beta * beta).sum())
