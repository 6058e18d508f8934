"""What a built page costs its reader, seen from headless Chromium: ``python -m specdec.book.weigh`` after ``make book``.

Bytes and requests are exact. Times are from one run on one machine, without a network's delay: compare them within a run only.
"""

import functools
import gzip
import http.server
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SITE = Path("_build/html")
TEXT_PAGE = "chapters/one-token"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]
# Where it has windows, Chromium 150 makes two more pages for the address bar of each, though none is shown: half of the time to
# open one. The last list of features counts, so that Playwright's own that matter on loopback stand here again.
WITHOUT = "WebUIOmniboxPopup,WebUIOmniboxAimPopup,AimEnabled,HttpsUpgrades,MediaRouter,OptimizationHints,PaintHolding"
FLAGS += [f"--disable-features={WITHOUT}"]
# The first of these is Chromium without its windows: a page opens in less than half of the time.
PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
PACKED = (".woff", ".woff2", ".png", ".jpg", ".gz")  # servers send these as they are

# Noted in the page from its first moment: paints, tasks over 50 ms, shifts that no input asked for.
WATCH = """
window.weighed = { paint: 0, blocking: 0, shift: 0 };
const watch = (type, note) =>
  new PerformanceObserver((list) => list.getEntries().forEach(note)).observe({ type, buffered: true });
watch("paint", (entry) => { if (entry.name === "first-contentful-paint") weighed.paint = entry.startTime; });
watch("longtask", (entry) => { weighed.blocking += entry.duration - 50; });
watch("layout-shift", (entry) => { if (!entry.hadRecentInput) weighed.shift += entry.value; });
"""

REST = "document.fonts.ready.then(() => new Promise((done) => setTimeout(done, 400)))"


def chromium() -> str:
    """Return the path of a Chromium: the one that CHROMIUM names, else the first of PROGRAMS that is installed.

    Raises:
        FileNotFoundError: there is none.
    """
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if not found:
        raise FileNotFoundError("no Chromium: apt install chromium-headless-shell, or set CHROMIUM to its path")
    return found


@dataclass(frozen=True)
class Weight:
    """One page, opened once with nothing cached. ``parts`` maps each address to its (raw, gzipped) bytes."""

    page: str
    parts: dict[str, tuple[int, int]]
    paint: float  # first contentful paint, ms
    blocking: float  # beyond the first 50 ms of each long task, ms
    shift: float  # cumulative layout shift, all shifts added up

    @property
    def raw(self) -> int:
        """Bytes of everything that the page asked for."""
        return sum(raw for raw, _ in self.parts.values())

    @property
    def gzipped(self) -> int:
        """The same, each text gzipped at level 6; fonts and pictures are packed already."""
        return sum(packed for _, packed in self.parts.values())


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Answers with the files of a folder, and keeps no log."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def served(site: Path) -> AbstractContextManager[str]:
    """Serve a folder on loopback; the context is its address with a slash at the end."""
    return answering(functools.partial(Quiet, directory=str(site)))


@contextmanager
def answering(handler: Callable[..., Any]) -> Iterator[str]:
    """Let a handler answer on loopback, and yield the address with a slash at the end."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()


def weigh(tab: Any, address: str, page: str) -> Weight:
    """Open a page in a tab of Playwright's that has nothing cached, and wait until it asks for nothing more."""
    return begin(tab, address, page)()


def begin(tab: Any, address: str, page: str) -> Callable[[], Weight]:
    """Open a page, and return what waits for its end: two tabs rest at the same time when both have begun."""
    tab.add_init_script(WATCH)
    answers: list[Any] = []
    tab.on("response", lambda answer: answers.append(answer))
    asked: set[Any] = set()
    for event, note in (("request", asked.add), ("requestfinished", asked.discard), ("requestfailed", asked.discard)):
        tab.on(event, lambda request, note=note: note(request))
    tab.goto(f"{address}{page}.html")
    tab.evaluate(f"void (weighed.rest = {REST})")

    def weight() -> Weight:
        for rest in ["weighed.rest", *[REST] * 74]:  # Playwright's "networkidle" would look on for half a second longer
            tab.evaluate(rest)
            if not any(request.url.startswith(address) for request in asked):
                break
        else:
            raise TimeoutError(f"{page} still waits for {[request.url for request in asked]}")
        seen = tab.evaluate("weighed")
        parts = {answer.url.removeprefix(address): _sizes(answer) for answer in answers if answer.ok}
        return Weight(page, parts, seen["paint"], seen["blocking"], seen["shift"])

    return weight


SIZES: dict[tuple[str | None, ...], tuple[int, int]] = {}  # the same scripts and styles come with every page


def _sizes(answer: Any) -> tuple[int, int]:
    """Bytes of an answer, raw and gzipped; one of the same address, date and length is not asked for again."""
    kind = (answer.url, *map(answer.headers.get, ("last-modified", "content-length")))
    if kind not in SIZES:
        body = answer.body()
        packed = answer.url.split("?")[0].endswith(PACKED)
        SIZES[kind] = len(body), len(body) if packed else len(gzip.compress(body, 6, mtime=0))
    return SIZES[kind]


def table(weights: list[Weight]) -> str:
    """Return the weights as a table in plain text, a page a line."""
    head = f"{'page':28}{'raw KB':>9}{'gzip KB':>9}{'requests':>10}{'paint ms':>10}{'blocked ms':>12}{'shift':>8}"
    lines = [
        f"{w.page:28}{w.raw / 1000:9.1f}{w.gzipped / 1000:9.1f}{len(w.parts):10}{w.paint:10.0f}{w.blocking:12.0f}{w.shift:8.3f}"
        for w in weights
    ]
    return "\n".join([head, *lines])


def main() -> None:
    """Weigh the text page and the heaviest lab of ``_build/html``; print the table and the lab's heaviest parts."""
    labs = sorted((SITE / "labs").glob("*.html"), key=lambda path: path.stat().st_size)
    if not labs:
        sys.exit(f"{SITE} holds no built lab: run `make book` first")
    try:
        program = chromium()
        from playwright.sync_api import sync_playwright  # here, since only tests and this script need it
    except FileNotFoundError as error:
        sys.exit(str(error))
    except ImportError:
        sys.exit("playwright is missing: pip install -r tests/requirements.txt")
    with served(SITE) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        pages = (TEXT_PAGE, f"labs/{labs[-1].stem}")
        weights = [weigh(browser.new_page(viewport={"width": 1280, "height": 900}), address, page) for page in pages]
        browser.close()
    print(table(weights))
    print(f"\nThe heaviest parts of {weights[-1].page}, gzipped KB:")
    for part, (_, packed) in sorted(weights[-1].parts.items(), key=lambda item: -item[1][1])[:12]:
        print(f"{packed / 1000:9.1f}  {part}")


if __name__ == "__main__":
    main()
