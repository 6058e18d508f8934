"""What a figure was measured on."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

PACKAGES = ("numpy", "torch", "transformers")


def describe() -> dict[str, Any]:
    """Processor, cores, the BLAS library with its kernels and threads, versions, and the day."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "blas": [
            {"library": info["internal_api"], "version": info["version"], "kernels": info.get("architecture"),
             "threads": info["num_threads"]}
            for info in threadpool_info() if info["user_api"] == "blas"
        ],
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", "not set"),
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
        "date": datetime.now(UTC).date().isoformat(),
    }  # fmt: skip


def _processor() -> str:
    """The processor's name and its vector instructions, as far as the system tells."""
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        return platform.processor() or platform.machine()
    facts = dict(line.split(":", 1) for line in cpuinfo.read_text().split("\n\n")[0].splitlines() if ":" in line)
    facts = {key.strip(): value.strip() for key, value in facts.items()}
    vectors = [name for name in ("avx2", "avx512f") if name in facts.get("flags", "").split()]
    model = f"{facts.get('model name', platform.machine())}, family {facts.get('cpu family')} model {facts.get('model')}"
    return f"{model} ({', '.join(vectors) or 'no AVX2'})"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
