"""Whether an installed wheel works: `make dist` runs this with the wheel, the extra `cli`, and nothing else.

Python is started with -I, so that neither the source nor the working directory is on the path.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from importlib import metadata, resources
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    import lbnn

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert ROOT / "src" not in Path(lbnn.__file__).parents, f"{lbnn.__file__} is the source, not the wheel"
    assert lbnn.__version__ == metadata.version("lbnn") == project["version"]
    for name in lbnn.__all__:
        getattr(lbnn, name)
    files = resources.files("lbnn")
    for path in sorted((ROOT / "src" / "lbnn").rglob("*")):  # templates, tasks and py.typed among them
        if path.is_file() and "__pycache__" not in path.parts:
            inside = path.relative_to(ROOT / "src" / "lbnn")
            assert (files / str(inside)).is_file(), f"the wheel has no {inside}"
    with tempfile.TemporaryDirectory() as folder:
        rows = ["a,b,y", *(f"{i % 7},{(i * i) % 11},{i % 7 + 0.1 * ((i * 5) % 3)}" for i in range(20))]
        Path(folder, "data.csv").write_text("\n".join(rows), encoding="utf-8")
        lbnn_command = Path(sys.executable).with_name("lbnn")
        fit = [lbnn_command, "fit", "data.csv", "-t", "y", "--depth", "1", "-o", "m.lbnn", "--json"]
        done = subprocess.run(fit, cwd=folder, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["origin"]["version"] == project["version"]
        predict = [lbnn_command, "predict", "m.lbnn", "data.csv", "-o", "p.csv"]
        subprocess.run(predict, cwd=folder, capture_output=True, text=True, check=True)
        assert len(Path(folder, "p.csv").read_text(encoding="utf-8").splitlines()) == 21
    print(f"lbnn {lbnn.__version__}: the wheel is whole and works")


if __name__ == "__main__":
    main()
