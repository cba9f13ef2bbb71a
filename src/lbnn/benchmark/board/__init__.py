"""The leaderboard: methods of other packages on the tasks, run in processes of their own, judged, and a page.

`methods` holds one function per method; `worker` and `runner` run them and keep results that can be resumed;
`page` shows them in the look of the report. Imports `benchmark`, `paper.page`.
"""
