# make book: build the site        make serve: show it        make test: test everything
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

.PHONY: book serve weigh test lint references lock clean
.DELETE_ON_ERROR:

# The cache goes first: it does not see changes in src/, and this build must run every cell.
book: .venv/.book
	rm -rf _build/.jupyter_cache
	.venv/bin/jupyter-book build -W -n --keep-going --all .
	@echo "The book is built: open _build/html/index.html, or run 'make serve'."

serve:
	@test -f _build/html/index.html || { echo "There is no site yet: run 'make book' first."; exit 1; }
	@echo "Serving the book at http://127.0.0.1:8000/ until you press Ctrl-C."
	@.venv/bin/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

# What a text page and the heaviest lab cost a reader, in Chromium; after `make book`.
weigh: .venv/.test
	$(RUN) specdec.book.weigh

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

# Renews the locks from pyproject.toml, keeping versions that still fit; UPGRADE=--upgrade takes the newest.
COMPILE = .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--no-annotate --custom-compile-command 'make lock' $(UPGRADE)
lock: .venv/.book
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
