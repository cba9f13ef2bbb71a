"""Size of the code and what its functions say of themselves, for each folder of src/lbnn.

    python -m benchmarks.code_size                 # this tree
    python -m benchmarks.code_size /path/to/other  # another checkout

Counted are files, lines, functions (methods and inner functions included), functions whose name occurs once
outside of their definition in the package ("one use"), tests of types of the project by `isinstance`, array
functions of the core (an annotation that names an array) without a docstring, and those whose docstring names
no shape. A method that overrides another one has the docstring of that one, too.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Folders and modules of the numerical core, from arrays to estimator.
CORE = (
    *("_base", "data", "scale", "likelihood", "noise", "engines", "predict", "posterior", "network"),
    *("cross_validation", "free_noise", "views", "matrix_gig", "theories", "learning_curves", "selection"),
    *("archive", "bands"),
)
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
    lines: int = 0
    functions: int = 0
    one_use: int = 0
    type_tests: int = 0
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


def tests_a_type(node: ast.AST, classes: set[str]) -> bool:
    """Whether this is a call of isinstance with one of these classes."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"):
        return False
    named = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
    return bool(named & classes)


def folder(file: Path, package: Path) -> str:
    """`engines/smc.py` is in `engines`, `network.py` is `network`."""
    parts = file.relative_to(package).with_suffix("").parts
    return parts[0]


def count(package: Path) -> dict[str, Count]:
    """Numbers of each folder of a package."""
    files = sorted(package.rglob("*.py"))
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    words = Counter(word for text in texts.values() for word in re.findall(r"\w+", text))
    trees = {file: ast.parse(text) for file, text in texts.items()}
    docstrings = Docstrings(trees.values())
    classes = {
        node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }
    result: dict[str, Count] = {}
    for file, text in texts.items():
        here = result.setdefault(folder(file, package), Count())
        here.files += 1
        here.lines += text.count("\n")
        here.type_tests += sum(tests_a_type(node, classes) for node in ast.walk(trees[file]))
        for each in definitions(trees[file]):
            here.functions += 1
            here.one_use += words[each.node.name] == 2
            if folder(file, package) in CORE and handles_arrays(each.node):
                here.array_functions += 1
                here.without_docstring += not docstrings.of(each)
                here.without_shape += bool(docstrings.of(each)) and not names_shapes(docstrings.of(each))
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


def main() -> None:
    checkout = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    print(table(count(checkout / "src" / "lbnn")))


if __name__ == "__main__":
    main()
