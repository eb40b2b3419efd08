"""Train logistic regression with sample weights and keep it as a network."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from fairweight.models.mlp import MLP
from fairweight.runs.trees import NEVER
from fairweight.types import Batch


def fit_linear(train: Batch, weights: Tensor | None) -> MLP:
    """Logistic regression of two classes, where each row counts its weight; kept as an MLP."""
    from sklearn.linear_model import LogisticRegression

    assert isinstance(train.inputs, Tensor)
    x, y = train.inputs.flatten(1).double().numpy(), train.labels.numpy()
    slopes, bias = np.zeros(x.shape[1]), NEVER * (1 - 2 * y[0])  # of rows that are all alike
    if len(np.unique(y)) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # classes that are almost separable end early, which is fine
            regression = LogisticRegression(solver="newton-cholesky", tol=1e-8)
            regression.fit(x, y, sample_weight=None if weights is None else weights.double().numpy())
        slopes, bias = regression.coef_[0], regression.intercept_[0]
    model = MLP(x.shape[1], 2, ())
    zeros = torch.zeros(x.shape[1])
    layer = {"weight": torch.stack([zeros, torch.from_numpy(slopes).float()]), "bias": torch.tensor([0.0, float(bias)])}
    model.layers[-1].load_state_dict(layer)
    return model
