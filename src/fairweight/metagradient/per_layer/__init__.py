"""The exact score gradient per layer: one forward, one backward to the layers' outputs, and products.

Where samples do not see each other, each sample's part of every gradient is in the one backward pass. For a function
y = f(a; w) that uses parameters, keep a and the gradient ĝ that arrives at y when the losses go backward with
weights c. With ratios r = p / c,

    slopes at weights p     Σ_i r_i ĝ_iᵀ ∂f/∂w (a_i)
    pull along v            s_i = ⟨ĝ_i, ∂f/∂w (a_i) v⟩ / c_i, summed over all uses

are products of what is at hand: neither forward mode nor a second backward pass. `Observer` sees the uses in any
model, a file in `kinds/` knows each kind of function, and `tried` finds by trial how samples lie in each of them; a
model in which they mix is refused with the reason.

    done = layer_forward(model, batch)          # a ForwardPass
    done.slopes(total, moving); done.pull(direction); done.backward(total)
"""

from __future__ import annotations

from fairweight.metagradient.per_layer._pass import LayerPass, layer_forward, tried

__all__ = ["LayerPass", "layer_forward", "tried"]
