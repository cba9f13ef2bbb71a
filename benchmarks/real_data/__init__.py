"""LBNNRegressor with its defaults beside what practitioners use, on real data, fetched on first use."""
