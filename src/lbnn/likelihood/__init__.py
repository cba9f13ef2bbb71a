"""How data weigh a scale: log p(Y | L) at every temperature.

`gaussian` is log p(Y | L), `hidden_kernel` the same with the hidden kernel instead of L (more outputs than
data), `rank_deficient` its form at zero temperature for targets of deficient rank; `existence` says where the
zero-temperature posterior exists. `thin_root` is the form for scales of low rank, `missing` for tables with
missing cells, `views` for observations through several views. Imports `_base`, `scale` and `data`; nothing of
engines.
"""
