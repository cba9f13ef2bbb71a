"""Kernels by neural-tangents 0.6.5 with jax 0.4.30: `python make_network_kernels.py network_kernels.json`."""

import json
import sys

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

from neural_tangents import stax  # noqa: E402

ACTIVATIONS = {"relu": stax.Relu(), "erf": stax.Erf()}


def kernel(activation, depth, weight_variance, bias_variance, X, X_test):
    """Kernel between rows of X_test and X of a network with `depth` weight matrices."""
    dense = stax.Dense(1, W_std=weight_variance**0.5, b_std=bias_variance**0.5)
    hidden = [dense, ACTIVATIONS[activation]] * (depth - 1)
    return np.asarray(stax.serial(*hidden, dense)[2](X_test, X, "nngp"))


def main(out):
    """Write inputs, parameters and kernels."""
    rng = np.random.default_rng(0)
    X, X_test = rng.normal(size=(6, 4)), 2 * rng.normal(size=(3, 4))
    cases = []
    for activation in ACTIVATIONS:
        for depth in (1, 2, 3, 5):
            for weights, biases in ((2.0, 0.0), (1.3, 0.5)):
                matrix = kernel(activation, depth, weights, biases, X, X_test)
                cases.append(
                    {
                        "activation": activation,
                        "depth": depth,
                        "weight_variance": weights,
                        "bias_variance": biases,
                        "kernel": matrix.tolist(),
                    }
                )
    with open(out, "w") as file:
        json.dump({"X": X.tolist(), "X_test": X_test.tolist(), "cases": cases}, file)


if __name__ == "__main__":
    main(sys.argv[1])
