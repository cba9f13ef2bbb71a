"""What public objects say of themselves: one line, no arrays, no addresses; the version of the metadata."""

from __future__ import annotations

import ast
import pkgutil
import resource
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import lbnn
from tests.helpers.problems import make_problem

DATA = make_problem(8, 12, 2, seed=601)
NETWORK = lbnn.Network((20,))
POSTERIOR = NETWORK.condition(DATA.X, DATA.Y, 4.0, target_error=0.2)
COMPARISON = lbnn.compare(NETWORK, DATA.X, DATA.Y, 4.0, quantities=("mean",), target_error=0.2)
BANDS_FIT = lbnn.Bands([NETWORK]).condition([DATA.X], DATA.Y)
OBJECTS = [
    NETWORK,
    NETWORK.scale_prior(2),
    NETWORK.choose_engine(8, 2),
    POSTERIOR,
    POSTERIOR.spectrum,
    POSTERIOR.diagnostics,
    POSTERIOR.noise,
    POSTERIOR.predict(DATA.X_test),
    POSTERIOR.leave_one_out(),
    lbnn.asymptotics.proportional(NETWORK, DATA.X, DATA.Y),
    COMPARISON,
    COMPARISON.rows[0],
    lbnn.convergence.REGIMES["infinite data"],
    lbnn.ScaleMixture(),
    BANDS_FIT,
    BANDS_FIT.predict([DATA.X_test]),
]


@pytest.mark.parametrize("thing", OBJECTS, ids=lambda thing: type(thing).__name__)
def test_objects_show_themselves_in_one_short_line(thing: object) -> None:
    text = repr(thing)
    assert text.startswith(f"{type(thing).__name__}(")
    assert "\n" not in text
    assert "array(" not in text
    assert " at 0x" not in text
    assert len(text) < 250


def test_version_is_that_of_the_installed_package() -> None:
    assert lbnn.__version__ == metadata.version("lbnn")


def test_names_for_type_checkers_are_those_that_are_imported() -> None:
    """`if TYPE_CHECKING:` and `_HOME` list the same names, from the same modules."""
    tree = ast.parse(Path(lbnn.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    listed = {
        alias.asname: alias.name if node.module == "lbnn" else node.module.removeprefix("lbnn.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    after = {"benchmark": "benchmark", "plots": "plots"}  # these come after `lbnn` in the order of import
    assert listed | after == lbnn._HOME
    assert set(lbnn.__all__) == set(lbnn._HOME)
    assert set(lbnn.__all__) <= set(dir(lbnn))
    for name in lbnn.__all__:
        assert getattr(lbnn, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Newtork'"):
        lbnn.Newtork  # noqa: B018


def test_functions_are_not_hidden_by_modules() -> None:
    """Importing a module makes it an attribute of the package: none has the name of a public function."""
    modules = {each.name for each in pkgutil.iter_modules(lbnn.__path__)}
    assert {name for name in lbnn.__all__ if name in modules} == {
        name for name, home in lbnn._HOME.items() if name == home
    }


def test_importing_the_package_imports_nothing_else() -> None:
    program = "import sys, lbnn; lbnn.__version__; print('numpy' in sys.modules, 'scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_version_takes_less_than_a_third_of_a_second() -> None:
    """2.8 s of CPU time before names were imported when used; 0.1 s since."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "lbnn.cli", "--version"], capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout == f"lbnn {lbnn.__version__}\n"
    assert (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 0.3
