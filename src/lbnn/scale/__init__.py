"""The scale L: its prior, the coordinates in which that is normal, the density of λ, and measures over it.

`prior` (the law ϖ), `bartlett` (coordinates), `total_factor` and `diagonal_law` (the law of the product T),
`layer_factors`, `relative_rows` (narrow layers), `gamma_product` and `density_table` (one output: the
density of log λ), `measure` (weighted atoms and the law behind them), `phases` (its modes), `draws` (of
signal and noise, in the basis that makes both diagonal). Imports `_base` and widths; nothing of data.
"""
