"""The workflows: well-formed, with no more rights than they need, and every action pinned by the hash of a commit."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
GOOD = (ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8")


def run(program, *arguments):
    """Run a program of this environment; return its exit status and what it says."""
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.returncode, answer.stdout + answer.stderr


def audit(path):
    """Return zizmor's exit status and findings; it asks nothing of the network."""
    return run("zizmor", "--offline", "--persona", "pedantic", "--no-progress", "--color", "never", str(path))


def schema(kind, *paths):
    return run("check-jsonschema", "--builtin-schema", f"vendor.{kind}", *map(str, paths))


def test_no_finding_in_any_workflow():
    status, findings = audit(ROOT / ".github")
    assert status == 0, findings


def test_every_workflow_fits_githubs_schema():
    assert schema("github-workflows", *WORKFLOWS) == (0, "ok -- validation done\n")
    assert schema("dependabot", ROOT / ".github" / "dependabot.yml") == (0, "ok -- validation done\n")


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        (r"checkout@\w{40} # v[\d.]+", "checkout@v4", "unpinned-uses"),
        (r"        with:\n          persist-credentials: false\n", "", "artipacked"),
        (r"permissions: \{\}", "permissions: write-all", "excessive-permissions"),
        ("run: make test", "run: echo ${{ github.head_ref }}", "template-injection"),
    ],
)
def test_the_audit_catches(tmp_path, old, new, finding):
    changed = tmp_path / "changed.yml"
    changed.write_text(re.sub(old, lambda _: new, GOOD, count=1), "utf-8")
    status, findings = audit(changed)
    assert status and finding in findings


def test_the_schema_catches_an_unknown_key(tmp_path):
    changed = tmp_path / "changed.yml"
    changed.write_text(GOOD.replace("runs-on:", "runs_on:"), "utf-8")
    assert schema("github-workflows", changed)[0] == 1


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_with_its_version_and_every_target_exists(path):
    text = path.read_text("utf-8")
    uses = re.findall(r"uses: (.*)", text)
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use) for use in uses), uses
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    assert set(re.findall(r"run: make ([\w-]+)", text)) <= targets


def test_an_action_has_one_hash_everywhere():
    text = "".join(path.read_text("utf-8") for path in WORKFLOWS)
    actions = {tuple(use.split("@")) for use in re.findall(r"uses: (\S+)", text)}
    assert len(actions) == len({name for name, _ in actions})


def test_what_is_published_was_tested_and_names_the_publishing_repository():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "publish.yml").read_text("utf-8"))["jobs"]
    assert jobs["build"]["env"]["BOOK_REPOSITORY"] == "${{ github.server_url }}/${{ github.repository }}"
    commands = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert commands == ["make test"]
    assert jobs["deploy"]["needs"] == "build"
