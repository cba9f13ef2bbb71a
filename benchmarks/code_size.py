"""Size of the code and what its functions say of themselves, for each folder of src/lbnn.

    python -m benchmarks.code_size                 # this tree
    python -m benchmarks.code_size /path/to/other  # another checkout

Counted are files, lines, functions (methods and inner functions included), functions whose name occurs once
outside of their definition in the package ("one use"), array functions of the core (an annotation that names
an array) without a docstring, and those whose docstring names no shape.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Folders and modules of the numerical core, from arrays to estimator.
CORE = (
    *("_base", "data", "scale", "likelihood", "noise", "engines", "predict", "posterior", "network"),
    *("cross_validation", "matrix_gig", "theories", "learning_curves", "selection", "archive", "bands"),
)
_ARRAY = re.compile(r"\b(Array|AnyArray|ComplexArray|IndexArray|Mask|ArrayLike|NDArray)\b")
#: (p, n_d), (m,), (..., n): letters, digits, hats and operators between parentheses, with a comma.
_SHAPE = re.compile(
    r"\(\s*(?:\.\.\.|[^\s(),]+)(?: [+−·/-] [^\s(),]+)*\s*,[^()]*\)|shaped like|same shape|any shape|of shape"
)


@dataclass
class Count:
    """Numbers of one folder."""

    files: int = 0
    lines: int = 0
    functions: int = 0
    one_use: int = 0
    array_functions: int = 0
    without_docstring: int = 0
    without_shape: int = 0


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods of a module."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def handles_arrays(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function takes or returns arrays, by its annotations."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    hints = [each.annotation for each in arguments] + [node.returns]
    return any(hint is not None and _ARRAY.search(ast.unparse(hint)) for hint in hints)


def names_shapes(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the docstring of a function names a shape."""
    return bool(_SHAPE.search(ast.get_docstring(node) or ""))


def folder(file: Path, package: Path) -> str:
    """`engines/atom.py` is in `engines`, `network.py` is `network`."""
    parts = file.relative_to(package).with_suffix("").parts
    return parts[0]


def count(package: Path) -> dict[str, Count]:
    """Numbers of each folder of a package."""
    files = sorted(package.rglob("*.py"))
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    words = Counter(word for text in texts.values() for word in re.findall(r"\w+", text))
    result: dict[str, Count] = {}
    for file, text in texts.items():
        here = result.setdefault(folder(file, package), Count())
        here.files += 1
        here.lines += text.count("\n")
        for node in functions(ast.parse(text)):
            here.functions += 1
            here.one_use += words[node.name] == 2
            if folder(file, package) in CORE and handles_arrays(node):
                here.array_functions += 1
                here.without_docstring += not ast.get_docstring(node)
                here.without_shape += bool(ast.get_docstring(node)) and not names_shapes(node)
    return result


def table(counts: dict[str, Count]) -> str:
    """A Markdown table with a row for each folder and one for all."""
    names = [each.name for each in fields(Count)]
    total = Count(*(sum(getattr(each, name) for each in counts.values()) for name in names))
    rows = [*sorted(counts.items()), ("all", total)]
    lines = ["| folder | " + " | ".join(name.replace("_", " ") for name in names) + " |"]
    lines.append("|---" * (len(names) + 1) + "|")
    lines += [f"| {key} | " + " | ".join(str(getattr(each, n)) for n in names) + " |" for key, each in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    checkout = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    print(table(count(checkout / "src" / "lbnn")))
