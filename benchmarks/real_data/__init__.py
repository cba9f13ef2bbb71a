"""real data: LBNNRegressor with its defaults against what practitioners use, on repeated random splits.

Here a few splits (half the repeats) and tables only. `python -m benchmarks.real_data.study --write` takes ten
splits and renews docs/real-data.md, docs/real-data.json and docs/images/real-data.svg. Data are fetched on
first use.
"""

from __future__ import annotations


def run(repeats: int) -> None:
    from benchmarks.real_data.study import study
    from benchmarks.real_data.tables import markdown

    print(markdown(study(max(repeats // 2, 2))))
