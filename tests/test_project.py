"""Workflows, templates and metadata of the project: what they name exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

if not WORKFLOWS:
    pytest.skip("the source archive has no workflows", allow_module_level=True)


def steps(workflow):
    return [(name, step) for name, job in workflow["jobs"].items() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_targets_that_exist(path):
    targets = set(
        re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    assert all(0 < job["timeout-minutes"] <= 360 for job in workflow["jobs"].values())
    called = [
        word for _, step in steps(workflow) for word in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))
    ]
    assert called
    assert set(called) <= targets


def test_jobs_cover_what_the_metadata_promise():
    jobs = {}
    for path in WORKFLOWS:
        jobs |= yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    assert {"test", "lowest", "docs", "arrays", "slow", "dist"} <= set(jobs)
    versions = jobs["test"]["strategy"]["matrix"]["python"]
    named = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert versions == named
    assert PROJECT["requires-python"] == f">={versions[0]}"
    assert all(isinstance(each, str) for each in versions)  # 3.10 as a number would be 3.1


@pytest.mark.parametrize(
    "path", [path for path in FORMS if path.name != "config.yml"], ids=lambda path: path.name
)
def test_issue_forms_have_what_github_requires(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    fields = [each for each in form["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in fields}) == len(fields)
    assert all(each["attributes"]["label"] for each in fields)
    assert any(each.get("validations", {}).get("required") for each in fields)


def test_the_archive_of_the_source_has_what_the_tests_read():
    """`make dist` builds it; the workflows are not part of it."""
    assert (ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md").is_file()
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    for each in build["targets"]["sdist"]["include"]:
        assert (ROOT / each.lstrip("/")).exists(), each
