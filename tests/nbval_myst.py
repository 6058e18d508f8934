"""Run the book's MyST notebooks through nbval, cell by cell, and compare every text output strictly.

nbval reads only ``.ipynb`` files with stored outputs. Pages here are ``.md`` files without outputs, so references
lie in ``tests/reference/<page>.json``; ``pytest --update-references`` renews them, by whole pages.
A cell tagged ``measured`` runs, and fails if it raises, but its output is not compared.
"""

import copy
import difflib
import json
import os
import re
from collections import Counter, defaultdict

import jupytext
import nbformat
import pytest
from nbval.plugin import IPyNbCell, IPyNbFile, comment_markers

FOLDERS = ("chapters", "labs")
ROOT_PAGES = ("intro.md",)
TEXT = ("text/plain", "text/html", "text/latex", "text/markdown")
RENEW = "look at the change, then renew the reference: make references"
# One BLAS thread: the same sums, in the same order, on every machine. `make book` sets the same.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def pytest_addoption(parser):
    """Add the option that renews references."""
    parser.addoption("--update-references", action="store_true", help="rewrite tests/reference")


def pytest_configure(config):
    """Run pages with this very Python, its assertions on."""
    config.option.nbval_current_env = True
    os.environ.update(ENVIRONMENT)
    os.environ.pop("PYTHONOPTIMIZE", None)


def pytest_collect_file(file_path, parent):
    """Collect a page that holds code cells."""
    if is_notebook(file_path, parent.config.rootpath):
        return MystFile.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keep the cells of a page together and in order, whatever `--dist` says: they share a kernel. Tests stay together by file.

    Those of the site's pages, half of all time in a browser, stay together by page, whose tabs they share.
    """
    from xdist.scheduler import LoadFileScheduling

    class ByPage(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file, _, test = nodeid.partition("::")
            return file + test[test.find("[") :] if file.endswith("test_site_pages.py") and "[" in test else file

    return ByPage(config, log)


def pytest_collection_finish(session):
    """Refuse to renew a part of a page (`-k`, `page.md::Cell 3`): the rest of its reference would be lost."""
    if not session.config.option.update_references:
        return
    chosen = Counter(item.parent for item in session.items if isinstance(item, MystCell))
    partial = [page.name for page, number in chosen.items() if number != len(page.cells)]
    if partial:
        raise pytest.UsageError(f"references are renewed by whole pages; only some cells chosen of {partial}")


def is_notebook(path, root):
    """Is this a page of the book with something to run? One code cell is enough, whatever its front matter says."""
    if path.suffix != ".md" or not path.is_relative_to(root):
        return False
    relative = path.relative_to(root)
    if relative.parts[0] not in FOLDERS and relative.as_posix() not in ROOT_PAGES:
        return False
    text = path.read_text("utf-8")
    return bool(re.search(r"^\s*[`:~]{3,}\s*\{code-cell\}", text, re.M))


def reference_of(page, root):
    """Return where the reference outputs of a page are kept."""
    return root / "tests" / "reference" / page.relative_to(root).with_suffix(".json")


def slim(outputs):
    """Keep what a reader sees as text, in order; of a picture the text form alone (test the data behind it)."""
    kept = []
    for out in copy.deepcopy(outputs):
        kind = out["output_type"]
        if kind == "stream":
            kept.append({"output_type": kind, "name": out["name"], "text": out["text"]})
        elif kind == "error":
            kept.append({"output_type": kind, "ename": out["ename"], "evalue": out["evalue"]})
        else:
            data = {mime: text for mime, text in sorted(out["data"].items()) if mime in TEXT}
            if "<svg" in data.get("text/html", ""):
                del data["text/html"]
            kept.append({"output_type": kind, "data": data})
    return kept


class MystFile(IPyNbFile):
    """A page; its cells are collected whether or not it has a reference, so a missing one cannot pass."""

    def collect(self):
        """Yield an item for every code cell, with the record that the reference holds for it."""
        self.nb = jupytext.read(self.path)
        self.cells = [cell for cell in self.nb.cells if cell.cell_type == "code"]
        self.reference = reference_of(self.path, self.config.rootpath)
        self.stored = json.loads(self.reference.read_text("utf-8")) if self.reference.exists() else []
        self.fresh = {}
        for number, cell in enumerate(self.cells, 1):
            yield MystCell.of(self, number, cell)

    def get_sanitize_files(self):
        """Use no regular expressions: they would blank a wrong number as readily as a machine's."""
        return []

    def renew(self):
        """Replace the reference in one move, so that an interruption leaves the old one whole."""
        records = [self.fresh[number] for number in range(1, len(self.cells) + 1)]
        self.reference.parent.mkdir(parents=True, exist_ok=True)
        part = self.reference.with_suffix(".json.tmp")
        part.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", "utf-8")
        os.replace(part, self.reference)


class MystCell(IPyNbCell):
    """A code cell of a page, compared with its record in the reference."""

    @classmethod
    def of(cls, page, number, cell):
        """Make the item of one cell; of nbval's own markers only `raises-exception` is known."""
        tags = cell.metadata.get("tags", [])
        foreign = [tag for tag in tags if tag.startswith("nbval-")]
        foreign += [mark for mark in comment_markers if re.search(rf"^\s*#\s*{mark}\s*$", cell.source, re.M)]
        if foreign or {"measured", "raises-exception"} <= set(tags):
            raise ValueError(f"{page.path.name}, cell {number}: {foreign or tags}: only `measured` is known")
        raises = "raises-exception" in tags
        options = defaultdict(bool, check="measured" not in tags, check_exception=raises)
        cell.execution_count = number  # nbval compares only cells that look as if they had run
        return cls.from_parent(page, name=f"Cell {number}", cell_num=number, cell=cell, options=options)

    def runtest(self):
        """Run the cell; then compare it with its record, or note the new record."""
        page, compared = self.parent, self.options["check"]
        if page.config.option.update_references:
            self.options["check"] = False
            super().runtest()
            outputs = slim(self.test_outputs) if compared else None
            page.fresh[self.cell_num] = {"source": self.cell.source, "outputs": outputs}
            if self.cell_num == len(page.cells):
                self.finish_update()
            return
        reason = self.out_of_date()
        if reason:
            self.raise_cell_error(f"{reason}; {RENEW}")
        record = page.stored[self.cell_num - 1]
        self.cell.outputs = [nbformat.from_dict(out) for out in record["outputs"] or []]
        super().runtest()

    def finish_update(self):
        """Write the page's reference if, and only if, each of its cells ran without an error."""
        missing = sorted(set(range(1, len(self.parent.cells) + 1)) - set(self.parent.fresh))
        if missing:
            self.raise_cell_error(f"the reference is left as it was: cells {missing} failed or did not run")
        self.parent.renew()

    def out_of_date(self):
        """Return why the reference does not speak of this cell as it now stands, or None."""
        stored, index = self.parent.stored, self.cell_num - 1
        if index >= len(stored):
            return "there is no reference for this cell"
        if stored[index]["source"] != self.cell.source:
            return "the reference is older than this cell's source"
        if (stored[index]["outputs"] is None) == self.options["check"]:
            return "the reference is older than this cell's tags"
        if self.cell_num == len(self.parent.cells) < len(stored):
            return "the reference has more cells than the page"
        return None

    def compare_outputs(self, test, ref, skip_compare=None):
        """Compare text outputs exactly, order and kind included (nbval's own comparison forgets order)."""
        old, new = (json.dumps(outs, indent=1, ensure_ascii=False).split("\n") for outs in (ref, slim(test)))
        self.comparison_traceback = [*difflib.unified_diff(old, new, "reference", "this run", lineterm=""), RENEW]
        return old == new

    def reportinfo(self):
        """Name the cell as `chapters/page.md::Cell 3`."""
        return self.path, None, f"{self.path.relative_to(self.config.rootpath)}::{self.name}"
