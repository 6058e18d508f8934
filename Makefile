# make book: build the site      make draft: only what changed      make serve: show it      make test: test everything
# Both set up .venv themselves from any Python 3.11 to 3.13; README.md has the same commands without make.

# The first usable Python, with venv and pip in it. Another one: make book PYTHON=/path/to/python3
USABLE := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c '$(USABLE)' >/dev/null 2>&1 && echo "$$p" && break; done)

RUN := .venv/bin/python -m
# Sums in the same order on every machine (tests/nbval_myst.py sets the same), and assertions on.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
unexport PYTHONOPTIMIZE

.PHONY: book draft serve notebooks nbval weigh test lint references links launch-test lock clean
.DELETE_ON_ERROR:

# The cache goes first: it does not see changes in src/, and this build must run every cell.
book: .venv/.book
	rm -rf _build/.jupyter_cache
	.venv/bin/jupyter-book build -W -n --keep-going --all .
	@echo "The book is built: open _build/html/index.html, or run 'make serve'."

# What an author runs while writing: changed pages only, in seconds. It does not see changes in src/: finish with `make book`.
draft: .venv/.book
	.venv/bin/jupyter-book build -W -n --keep-going .

serve:
	@test -f _build/html/index.html || { echo "There is no site yet: run 'make book' first."; exit 1; }
	@echo "Serving the book at http://127.0.0.1:8000/ until you press Ctrl-C."
	@.venv/bin/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

# What a text page and the heaviest lab cost a reader, in Chromium; after `make book`.
weigh: .venv/.test
	$(RUN) specdec.book.weigh

# The build leaves every page as an executed notebook, and a stub without solutions.
notebooks: book
	@echo "Executed: _build/notebooks. Without solutions: _build/stubs. Check them with 'make nbval'."

# Stock nbval, which sees nothing of this repository's settings; a notebook's cells stay together.
nbval: .venv/.test
	@test -f _build/notebooks/pytest.ini || { echo "There are no notebooks yet: run 'make notebooks' first."; exit 1; }
	cd _build/notebooks && ../../.venv/bin/python -m pytest --nbval -n auto --dist loadfile

test: .venv/.test lint book
	$(RUN) pytest -n auto

lint: .venv/.test
	$(RUN) ruff check .
	$(RUN) mypy
	.venv/bin/lint-imports

# Renews the outputs that the notebooks are compared with; a page in which a cell fails keeps its old ones.
references: .venv/.test
	$(RUN) pytest -n auto --update-references --ignore=tests
	@echo "Now read what changed: git diff tests/reference"

# Asks every outward link whether it still answers; needs the network, and is no part of `make test`.
links: .venv/.book
	.venv/bin/jupyter-book build --builder linkcheck .

# Opens the labs in a new environment as Binder would; some minutes, and packages from the network.
launch-test: .venv/.test
	$(RUN) pytest -m launch tests/test_launch.py

# Renews the locks from pyproject.toml, keeping versions that still fit; UPGRADE=--upgrade takes the newest.
# It does not install the old lock first: one that contradicts pyproject.toml would keep pip busy for minutes.
COMPILE = .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--no-annotate --custom-compile-command 'make lock' $(UPGRADE)
lock:
	@test -x .venv/bin/python || "$(PYTHON)" -m venv .venv
	$(RUN) pip install --quiet uv
	$(COMPILE) pyproject.toml -o requirements.txt
	$(COMPILE) --group test -c requirements.txt -o tests/requirements.txt
	printf '# The package itself, from this checkout, so that a change in src/ is seen at once.\n-e .\n' >> requirements.txt

.venv/.book: requirements.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 with venv is needed and was not found."; \
	echo "Install one (on Debian: apt install python3 python3-venv), or name it: make book PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv .venv
	$(RUN) pip install --quiet -r requirements.txt
	touch $@

.venv/.test: .venv/.book tests/requirements.txt
	$(RUN) pip install --quiet -r requirements.txt -r tests/requirements.txt
	touch $@

clean:
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
