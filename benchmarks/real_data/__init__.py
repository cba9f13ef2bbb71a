"""Real data: LBNNRegressor with its defaults against what practitioners use, on repeated random splits.

`python -m benchmarks.real_data.study --write` renews docs/results/real-data.md, docs/results/real-data.json
and docs/images/real-data.svg. Data are fetched on first use.
"""
