"""Pages' kernels as forks of one process that has imported what each of them would import again: ipykernel and Matplotlib.

A kernel provisioner (https://jupyter-client.readthedocs.io/en/stable/provisioning.html) for the book's own build. A reader's
kernel, Binder's and nbval's are ordinary ones.
"""

import multiprocessing
import os
import sys
import threading
from importlib.metadata import EntryPoint
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

NAME = "forked"
# The last one is imported by the script that builds the book, which multiprocessing runs again in every fork.
PRELOAD = [
    *("ipykernel.kernelapp", "ipykernel.ipkernel", "ipykernel.zmqshell", "ipykernel.debugger", "psutil", "sqlite3"),
    *("IPython.core.debugger", "IPython.core.oinspect", "IPython.extensions.storemagic"),
    *("specdec.book.figures", "jupyter_book.cli.main"),
]


class Kernel(ForkServerProcess):
    """A kernel's process, with what jupyter-client asks of a ``subprocess.Popen``."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        """Return the exit status; ``None`` while the process runs."""
        return self.exitcode

    def wait(self) -> int | None:
        """Wait for the end; return the exit status."""
        self.join()
        return self.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal to a process that runs."""
        if self.pid and self.poll() is None:
            os.kill(self.pid, number)


class ForkedProvisioner(LocalProvisioner):
    """Starts a kernel as a fork."""

    async def launch_kernel(self, cmd: list[str], **settings: Any) -> KernelConnectionInfo:
        """Do what ``cmd`` does, ``python -m ipykernel_launcher ARGUMENTS``, in the folder and environment it is to run in."""
        arguments = cmd[cmd.index("ipykernel_launcher") + 1 :]
        kernel = Kernel(target=_run, args=(arguments, settings["env"], settings["cwd"]), daemon=True)  # ends with the build
        kernel.start()
        self.process, self.pid = kernel, kernel.pid  # type: ignore[assignment]
        return self.connection_info


def _run(arguments: list[str], environment: dict[str, str], folder: str) -> None:
    """Be a kernel."""
    from ipykernel.kernelapp import IPKernelApp

    multiprocessing.current_process().daemon = False  # a page may start processes
    os.setsid()  # Ctrl-C is for the build, which ends its kernels
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    scripts = str(Path(sys.argv[0]).parent)  # the build's own place, first on its path
    sys.path[:] = [place for place in sys.path if place != scripts]
    threading.Thread(target=_end_with_the_build, daemon=True).start()
    IPKernelApp.launch_instance(argv=arguments, parent_handle=1)  # its own watch is on the process it is a fork of


def _end_with_the_build() -> None:
    """Wait for the end of the build, then end, whatever the kernel does."""
    if build := multiprocessing.parent_process():
        build.join()
        os._exit(1)


def use() -> None:
    """Let kernels of this process be forks, where forks of a process with such imports are known to be safe."""
    if sys.platform == "linux":
        os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # as kernels have it; the debugger would print a warning
        multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOAD)
        factory = KernelProvisionerFactory.instance()
        factory.provisioners[NAME] = EntryPoint(NAME, f"{__name__}:{ForkedProvisioner.__name__}", factory.GROUP_NAME)
        factory.default_provisioner_name = NAME


def leave() -> None:
    """Let kernels be ordinary processes again."""
    KernelProvisionerFactory.instance().default_provisioner_name = "local-provisioner"
