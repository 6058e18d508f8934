"""The way from a launch button to a running lab: Binder's plan, and its steps as far as a machine without Binder can go.

The marked tests (`make launch-test`) copy the repository, make a new environment by the plan, start JupyterLab on loopback and
work with every lab in Chromium: open its .md as a notebook, run all cells, move a control, read the result.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import repo2docker
from playwright import sync_api

from test_site import browser, without  # noqa: F401  (the fixture)

ROOT = Path(__file__).parent.parent
LABS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "labs").glob("*.md"))
PYTHON = (ROOT / "runtime.txt").read_text("utf-8").strip().removeprefix("python-")
PIP = re.compile(r"^RUN \$\{KERNEL_PYTHON_PREFIX\}/bin/pip (.*)$", re.M)


def copy_of_the_repository(target):
    """Copy what git knows or would add: what Binder's clone holds, with the changes not committed yet."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def plan_for(folder):
    """Return repo2docker's Dockerfile for a folder; this asks for no Docker engine."""
    command = [str(Path(sys.executable).with_name("jupyter-repo2docker")), "--no-build", "--debug", str(folder)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout + answer.stderr


def few(folder, *names):
    """Copy the files that the plan depends on."""
    for name in ("requirements.txt", "runtime.txt", "postBuild", "pyproject.toml", *names):
        shutil.copy2(ROOT / name, folder / name)
    return folder


def test_binders_plan_has_our_python_our_packages_and_our_post_build(tmp_path):
    plan = plan_for(few(tmp_path))
    assert f"Building conda environment for python={PYTHON}\n" in plan
    steps = ["COPY --chown=0:0 src/ ${REPO_DIR}/", 'pip install --no-cache-dir -r "requirements.txt"', "RUN ./postBuild"]
    assert sorted(steps, key=plan.index) == steps, "the library's own folder is there before pip is asked for `-e .`"
    assert os.access(ROOT / "postBuild", os.X_OK)


def test_the_plan_would_tell(tmp_path):
    """Without runtime.txt another Python comes, and an empty folder `binder` hides every file of ours."""
    few(tmp_path)
    (tmp_path / "runtime.txt").unlink()
    assert f"for python={PYTHON}\n" not in plan_for(tmp_path)
    (tmp_path / "binder").mkdir()
    assert "RUN ./postBuild" not in plan_for(few(tmp_path))
    assert not (ROOT / "binder").exists() and not (ROOT / ".binder").exists()


def jupyterlab_of_the_plan():
    """Return the JupyterLab that repo2docker puts beside our packages."""
    lock = Path(repo2docker.__file__).parent / "buildpacks" / "conda" / f"environment.py-{PYTHON}-linux-64.lock"
    return re.search(r"/jupyterlab-(\d[\d.]*)-", lock.read_text("utf-8"))[1]


@pytest.fixture(scope="module")
def binder(tmp_path_factory):
    """The repository, its environment made by the plan's own steps, and a home: folders `repo`, `env`, `home`."""
    base = tmp_path_factory.mktemp("binder")
    python = shutil.which(f"python{PYTHON}")
    if not python or subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True, check=False).returncode:
        without(f"no Python {PYTHON} with venv, which runtime.txt names")
    repo = copy_of_the_repository(base / "repo")
    subprocess.run([python, "-m", "venv", base / "env"], check=True)
    pip = [base / "env" / "bin" / "pip"]
    subprocess.run([*pip, "install", "--quiet", f"jupyterlab=={jupyterlab_of_the_plan()}"], check=True)
    for step in PIP.findall(plan_for(repo)):
        subprocess.run([*pip, *shlex.split(step)], cwd=repo, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["./postBuild"], cwd=repo, env=environment(base), check=True)
    return base


def environment(base):
    """Return the variables of a user of that environment, and nothing of this one's Python."""
    (base / "home").mkdir(exist_ok=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "JUPYTER", "VIRTUAL_ENV"))}
    return kept | {"HOME": str(base / "home"), "PATH": f"{base / 'env' / 'bin'}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def jupyterlab(binder):
    """The address of a JupyterLab on loopback, started in the copy as Binder starts it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [binder / "env" / "bin" / "jupyter", "lab", "--no-browser", "--ip=127.0.0.1", f"--port={port}", "--allow-root"]
    command += ["--IdentityProvider.token=", "--LabApp.expose_app_in_browser=True", "--LabApp.news_url="]
    with (binder / "log").open("w") as log, subprocess.Popen(
        command, cwd=binder / "repo", env=environment(binder), stdout=log, stderr=subprocess.STDOUT
    ) as server:
        address = f"http://127.0.0.1:{port}"
        try:
            wait_for(f"{address}/api/status", server)
            yield address
        finally:
            server.terminate()


def wait_for(address, server, seconds=120):
    """Wait until a server answers."""
    for _ in range(seconds * 2):
        assert server.poll() is None, "JupyterLab ended"
        try:
            return urllib.request.urlopen(address, timeout=5).read()
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"{address} did not answer in {seconds} seconds")


@pytest.fixture
def lab(jupyterlab, browser):  # noqa: F811
    """Open a page in JupyterLab as the launch button does."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})

    def lab(path):
        page.goto(f"{jupyterlab}/lab/tree/{path}?reset")  # no tab of the lab before
        page.wait_for_function(f"globalThis.jupyterapp?.shell.currentWidget?.context?.path === {path!r}", timeout=120_000)
        page.locator(".jp-NotebookPanel .jp-Cell").first.wait_for(timeout=120_000)
        return page

    yield lab
    page.close()


# JupyterLab's own commands and model: of a long notebook it draws only the cells in view.
PANEL = "jupyterapp.shell.currentWidget"
IDLE = f"{PANEL}.context.sessionContext.session?.kernel?.status === 'idle'"
CELLS = f"{PANEL}.content.model.sharedModel.toJSON().cells"
SLIDER = "input[type=range], .noUi-handle"
LIVE = "application/vnd.jupyter.widget-view+json"


@pytest.mark.launch
@pytest.mark.parametrize("path", LABS)
def test_a_lab_opens_as_a_notebook_runs_and_answers(lab, path):
    page = lab(path)
    page.wait_for_function(IDLE, timeout=120_000)
    page.evaluate("void jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_function(f"{CELLS}.every(cell => cell.cell_type !== 'code' || cell.execution_count)", timeout=900_000)
    page.wait_for_function(IDLE)
    cells = page.evaluate(CELLS)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 5
    for cell in code:
        failed = [out["evalue"] for out in cell["outputs"] if out["output_type"] == "error"]
        assert bool(failed) == ("raises-exception" in cell["metadata"].get("tags", [])), (cell["source"], failed)
    said = str([cell["outputs"] for cell in code])
    assert "Not yet" in said and "Right" in said, "exercises check themselves here too"
    for number, cell in enumerate(cells):
        if any(LIVE in out.get("data", {}) for out in cell.get("outputs", [])):
            move(page, number)


def move(page, number):
    """Move the first slider that a cell draws, and wait until the cell shows another result."""
    page.evaluate(f"void {PANEL}.content.scrollToItem({number}, 'start')")
    area = page.locator(f".jp-Cell[data-windowed-list-index='{number}'] .jp-OutputArea").first
    slider = area.locator(SLIDER).first
    slider.wait_for(timeout=60_000)
    shown = area.inner_text()
    slider.focus()
    page.keyboard.press("ArrowRight")
    sync_api.expect(area).not_to_have_text(shown, use_inner_text=True, timeout=60_000)
