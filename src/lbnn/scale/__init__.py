"""The scale L: its prior, the coordinates in which that is normal, the density of λ, and measures over it.

`prior` (the law ϖ), `bartlett` (coordinates), `gamma_product` (one output: the density of log λ), `measure`
(weighted atoms and the law behind them), `draws` (of signal and noise, in the basis that makes both
diagonal). Imports `_base` and widths; nothing of data.
"""
