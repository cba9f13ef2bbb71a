"""Size of the code in tokens, what its functions say of themselves, and what one call runs through.

    python -m benchmarks.code_size                 # this tree
    python -m benchmarks.code_size /path/to/other  # another checkout
    python -m benchmarks.code_size --walk          # functions and files of one call

A token is one of Python's `tokenize`, without comments, docstrings, ends of lines and indents. Folders of
`src/lbnn` are the core or stand around it, tests are those of either. Listed are functions of more than 60
lines and helpers of fewer than four that are used once, docstrings not counted. Of the array functions of
the core (an annotation names an array) those without a docstring are counted, and those whose docstring names
no shape; a method that overrides another one has the docstring of that one, too.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import io
import pkgutil
import re
import sys
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: Folders that stand around the core; every other one is part of it.
AROUND = (
    *("estimator", "selection", "bands", "cli", "benchmark", "explore", "paper", "sweeps", "theories"),
    *("learning_curves", "plots"),
)
#: Folders and modules of arrays, whose docstrings name shapes.
CORE = (
    *("_base", "data", "scale", "likelihood", "noise", "engines", "predict", "posterior", "network"),
    *("cross_validation", "free_noise", "views", "matrix_gig", "theories", "learning_curves", "selection"),
    *("archive", "bands"),
)
LONGEST, SHORTEST = 60, 4  # lines of a function, without its docstring
_NO_TOKENS = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
}
_ARRAY = re.compile(r"\b(Array|AnyArray|ComplexArray|IndexArray|Mask|ArrayLike|NDArray)\b")
#: Arrays by name, as of a file, and functions of arrays.
_NAMED = re.compile(r"dict\[str, \w+\]|Callable\[.*\]")
#: (p, n_d), (m,), (..., n): letters, digits, hats and operators between parentheses, with a comma.
_SHAPE = re.compile(
    r"\(\s*(?:≤ )?(?:\.\.\.|[^\s(),]+)(?: [+−·/-] [^\s(),]+)*\s*,[^()]*\)"
    r"|shaped like|same shape|any shape|of shape"
)


@dataclass
class Count:
    """Numbers of one folder."""

    files: int = 0
    tokens: int = 0
    functions: int = 0
    long: int = 0
    small: int = 0
    array_functions: int = 0
    without_docstring: int = 0
    without_shape: int = 0


Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Definition:
    """A function with the name of its class, if it is a method."""

    node: Function
    owner: str = ""


def definitions(tree: ast.AST, owner: str = "") -> Iterator[Definition]:
    """All functions, methods and inner functions of a module."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield Definition(node, owner)
        inside = node.name if isinstance(node, ast.ClassDef) else ""
        yield from definitions(node, inside)


class Docstrings:
    """Docstrings of functions, and of the methods that they override, as `inspect.getdoc` finds them."""

    def __init__(self, trees: Iterable[ast.AST]) -> None:
        self.bases: dict[str, list[str]] = {}
        self.methods: dict[tuple[str, str], str] = {}
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self.bases[node.name] = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            for each in definitions(tree):
                if each.owner:
                    self.methods[each.owner, each.node.name] = ast.get_docstring(each.node) or ""

    def of(self, each: Definition) -> str:
        """The docstring of a function followed by those that it inherits."""
        parts, waiting = [ast.get_docstring(each.node) or ""], list(self.bases.get(each.owner, ()))
        while waiting:
            name = waiting.pop()
            parts.append(self.methods.get((name, each.node.name), ""))
            waiting += self.bases.get(name, ())
        return "\n".join(filter(None, parts))


def handles_arrays(node: Function) -> bool:
    """Whether a function takes or returns arrays, by its annotations."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    hints = [each.annotation for each in arguments] + [node.returns]
    texts = [_NAMED.sub("", ast.unparse(hint)) for hint in hints if hint is not None]
    return any(_ARRAY.search(text) for text in texts)


def names_shapes(docstring: str) -> bool:
    """Whether a docstring names a shape."""
    return bool(_SHAPE.search(docstring))


def tokens(text: str, tree: ast.AST) -> int:
    """Tokens of a module without comments, docstrings, ends of lines and indents."""
    said: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, Function)) and ast.get_docstring(node) is not None:
            said |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    every = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(each.type not in _NO_TOKENS and each.start[0] not in said for each in every)


def length(node: Function) -> int:
    """Lines of a function without its docstring."""
    said = node.body[0] if ast.get_docstring(node) is not None else None
    lines = (node.end_lineno or 0) - node.lineno + 1
    return lines - ((said.end_lineno or 0) - said.lineno + 1 if said else 0)


def folder(file: Path, package: Path) -> str:
    """`engines/smc.py` is in `engines`, `network.py` is `network`."""
    return file.relative_to(package).with_suffix("").parts[0]


def count(package: Path, found: list[str] | None = None) -> dict[str, Count]:
    """Numbers of each folder of a package; with `found`, tokens too, and what is long or small in it."""
    texts = {file: file.read_text(encoding="utf-8") for file in sorted(package.rglob("*.py"))}
    words = Counter(word for text in texts.values() for word in re.findall(r"\w+", text))
    trees = {file: ast.parse(text) for file, text in texts.items()}
    docstrings = Docstrings(trees.values())
    result: dict[str, Count] = {}
    for file, text in texts.items():
        here = result.setdefault(folder(file, package), Count())
        here.files += 1
        here.tokens += tokens(text, trees[file]) if found is not None else 0
        for each in definitions(trees[file]):
            lines = length(each.node)
            long, small = lines > LONGEST, lines < SHORTEST and words[each.node.name] == 2 and not each.owner
            if found is not None and (long or small):
                place = f"{file.relative_to(package)}:{each.node.lineno}"
                found.append(f"{'long' if long else 'small'}: {place} {each.node.name} ({lines} lines)")
            here.functions += 1
            here.long += long
            here.small += small
            if folder(file, package) in CORE and handles_arrays(each.node):
                here.array_functions += 1
                here.without_docstring += not docstrings.of(each)
                here.without_shape += bool(docstrings.of(each)) and not names_shapes(docstrings.of(each))
    return result


def total(counts: Iterable[Count]) -> Count:
    """The sum over folders."""
    every = list(counts)
    return Count(*(sum(getattr(each, field.name) for each in every) for field in fields(Count)))


def table(counts: dict[str, Count]) -> str:
    """A Markdown table with a row for each folder and one for each sum."""
    sums = {
        "core": total(each for name, each in counts.items() if name not in AROUND),
        "around the core": total(each for name, each in counts.items() if name in AROUND),
        "all": total(counts.values()),
    }
    names = [each.name for each in fields(Count)]
    lines = ["| folder | " + " | ".join(name.replace("_", " ") for name in names) + " |"]
    lines.append("|---" * (len(names) + 1) + "|")
    rows = [*sorted(counts.items()), *sums.items()]
    lines += [f"| {key} | " + " | ".join(f"{getattr(each, n):,}" for n in names) + " |" for key, each in rows]
    return "\n".join(lines)


def beside(checkout: Path) -> str:
    """Tokens of tests and benchmarks, tests by what they test."""
    sums: Counter[str] = Counter()
    for name in ("tests", "benchmarks"):
        for file in (checkout / name).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            around = file.relative_to(checkout / name).parts[0] in AROUND
            label = f"{name} around the core" if around and name == "tests" else name
            sums[label] += tokens(text, ast.parse(text))
    return ", ".join(f"{name} {size:,}" for name, size in sorted(sums.items()))


def walk(call: Callable[[], Any], package: Path) -> tuple[int, int]:
    """How many functions of a package a call runs, lambdas and generators included, in how many files."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(package)):
            seen.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return len(seen), len({code.co_filename for code in seen})


def walks() -> str:
    """Functions and files of five calls with 30 rows and a hidden layer of 20 units."""
    import lbnn

    for each in pkgutil.walk_packages(lbnn.__path__, "lbnn."):
        if not each.name.endswith("__main__"):
            importlib.import_module(each.name)
    import numpy as np

    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 5))
    Y = X @ rng.normal(size=(5, 3)) + 0.3 * rng.normal(size=(30, 3))
    network = lbnn.Network((20,))
    post = network.condition(X, Y, 10.0)
    calls: dict[str, Callable[[], Any]] = {
        "condition, three outputs": lambda: network.condition(X, Y, 10.0),
        "condition, one output": lambda: network.condition(X, Y[:, 0], 10.0),
        "predict(...).variance": lambda: post.predict(X).variance,
        "LBNNRegressor().fit, three outputs": lambda: lbnn.LBNNRegressor().fit(X, Y),
    }
    found = {name: walk(call, Path(lbnn.__file__).parent) for name, call in calls.items()}
    return "\n".join(
        f"{name}: {functions} functions in {files} files" for name, (functions, files) in found.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT)
    parser.add_argument(
        "--walk", action="store_true", help="run calls of this tree and count what they visit"
    )
    options = parser.parse_args()
    if options.walk:
        print(walks())
        return
    found: list[str] = []
    print(table(count(options.checkout / "src" / "lbnn", found)))
    print(f"tokens: {beside(options.checkout)}")
    print("\n".join(sorted(found)))


if __name__ == "__main__":
    main()
