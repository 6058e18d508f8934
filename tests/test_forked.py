"""The build's kernels are forks: a page finds in one what it finds in an ordinary kernel, and none outlives the build."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the build's kernels are ordinary ones")

START = """
import os, sys
from jupyter_client.manager import start_new_kernel
from specdec.book import forked

environment = os.environ | {"MARK": "a b"}
os.environ["OWN"] = "the build's"

def start():
    return start_new_kernel(kernel_name="python3", cwd=sys.argv[1], env=environment)

def run(code):
    manager, client = start()
    client.execute_interactive(code, timeout=60)
    client.stop_channels()
    manager.shutdown_kernel()
"""

# What a page can see of its kernel. It starts a process of its own, as the conformance lab does.
LOOK = """
import json, multiprocessing, os, pathlib, sys, threading
from concurrent.futures import ProcessPoolExecutor
with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
    parent, beneath = pool.submit(os.getppid).result(), pool.submit(os.getcwd).result()
seen = dict(
    path=sys.path, folder=os.getcwd(), beneath=beneath, own=parent == os.getpid(), name=__name__, python=sys.executable,
    environment={{name: text for name, text in os.environ.items() if not name.startswith(("JPY_PARENT", "PYDEVD"))}},
    session=os.getsid(0) == os.getpid(), shell=type(get_ipython()).__name__, names=sorted(globals()),
    threads=threading.active_count(), flags=list(sys.flags), trace=repr(sys.gettrace()),
)
_ = pathlib.Path({place!r}).write_text(json.dumps([seen, "numpy" in sys.modules]))
"""


def build(folder, *lines):
    """How to run lines in a script that stands in a folder of its own, as the one that builds the book does."""
    path = folder / "scripts" / "build.py"
    path.parent.mkdir()
    path.write_text(START + "if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in lines), "utf-8")
    return [sys.executable, str(path), str(folder)]


def test_a_page_sees_the_same_in_a_fork_with_the_imports_already_there(tmp_path):
    places = [tmp_path / name for name in ("ordinary", "fork", "after")]
    looks = [f"run({LOOK.format(place=str(place))!r})" for place in places]
    command = build(tmp_path, looks[0], "forked.use()", looks[1], "forked.leave()", looks[2])
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert not ran.stdout
    (ordinary, bare), (fork, filled), (after, bare_again) = (json.loads(place.read_text("utf-8")) for place in places)
    assert (bare, filled, bare_again) == (False, True, False)
    assert ordinary == fork == after
    assert fork["own"] and fork["session"] and fork["environment"]["MARK"] == "a b" and fork["beneath"] == str(tmp_path)


@pytest.mark.parametrize("ending", [None, signal.SIGINT, signal.SIGKILL])
def test_a_kernel_ends_with_a_build_that_forgets_it_is_interrupted_or_killed(tmp_path, ending):
    lines = ["import time", "forked.use()", "manager, client = start()", "print(manager.provisioner.pid, flush=True)"]
    busy = ["client.execute('while True: pass')", "time.sleep(60)"] if ending else []
    process = subprocess.Popen(build(tmp_path, *lines, *busy), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    kernel = int(process.stdout.readline())
    try:
        if ending:
            time.sleep(1)
            assert runs(kernel)
            process.send_signal(ending)
        assert (process.wait(30) == 0) == (ending is None)
        until = time.monotonic() + 10
        while runs(kernel) and time.monotonic() < until:
            time.sleep(0.1)
        assert not runs(kernel)
    finally:
        process.kill()
        if runs(kernel):
            os.kill(kernel, signal.SIGKILL)


def runs(number):
    """Is there a process of this number that has not ended?"""
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8") as status:
            return not re.search(r"\) [ZX] ", status.read())
    except FileNotFoundError:
        return False
