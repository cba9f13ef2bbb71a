"""What a sweep shows of itself: counts, time left, and nothing where that is asked."""

from __future__ import annotations

import io

from lbnn.sweeps.progress import Bar, Lines, showing


def test_lines_tell_counts_and_the_time_left(capsys, monkeypatch):
    monkeypatch.setattr("lbnn.sweeps.progress._SECONDS_BETWEEN_LINES", 0.0)
    lines = Lines(total=100, before=20)
    lines.note("2 workers")
    lines.add(10, 4, 1)
    lines.add(65, 0, 0)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "lbnn sweep: 2 workers"
    assert said[1].startswith("lbnn sweep: 35 of 100 points, 4 warned, 1 failed; about ")
    assert said[1].endswith(" s left")
    assert said[2] == "lbnn sweep: 100 of 100 points, 4 warned, 1 failed"


def test_the_bar_shows_the_same(capsys):
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    page = io.StringIO()
    with Progress(TextColumn("{task.description}"), console=Console(file=page, width=100)) as bar:
        shown = Bar(10, 0, bar)
        shown.note("[not markup]")
        shown.add(8, 1, 1)
    assert "10 of 10 points, 1 warned, 1 failed" in page.getvalue()
    assert "lbnn sweep: [not markup]" in page.getvalue()


def test_nothing_is_shown_unless_asked(capsys):
    with showing(False, 10, 0) as show:
        show.note("address")
        show.add(10, 0, 0)
    with showing(True, 10, 0) as show:  # no terminal: lines
        show.add(10, 0, 0)
    assert capsys.readouterr().err == "lbnn sweep: 10 of 10 points, 0 warned, 0 failed\n"
