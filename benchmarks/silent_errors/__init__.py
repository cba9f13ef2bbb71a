"""Families of problems on which a wrong answer could look right, each with a referee that shares no code.

A file holds one family: ``problems(count, seed)`` yields problems, ``judge(problem)`` returns a `Judgement`.
The command ``python -m benchmarks.silent_errors FAMILY --count 100 --seed 1 --workers 2`` prints how many
answers are ok, how many of these are silently wrong, and the worst of them.
"""
