"""Draw the pictures of docs/gallery.md by running the page: `.venv/bin/python docs/make_gallery.py [FOLDER]`.

Every `### name` of the page has a picture images/gallery/name.svg and the block that draws it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "gallery.md"


def examples() -> dict[str, str]:
    """The code of the page by the name of its picture; "" is what all of them build on."""
    found, name = {}, ""
    for heading, code in re.findall(
        r"^### (\w+)$|^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.S | re.M
    ):
        if heading:
            name = heading
        else:
            found[name] = code
    return found


def main(folder: str | Path = DOCS / "images" / "gallery") -> None:
    """Run the page in an empty folder and write the figure of every block. Same machine, same bytes."""
    out = Path(folder).resolve()
    out.mkdir(parents=True, exist_ok=True)
    matplotlib.rcParams["svg.hashsalt"] = "lbnn"
    namespace: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        for name, code in examples().items():
            exec(compile(code, str(PAGE), "exec"), namespace)
            if name:
                plt.gcf().savefig(out / f"{name}.svg", metadata={"Date": None})
            plt.close("all")
        os.chdir(DOCS)


if __name__ == "__main__":
    main(*sys.argv[1:])
