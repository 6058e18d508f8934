"""Let pytest collect the book's pages: a conftest.py in tests/ would not see files outside tests/."""

pytest_plugins = ["nbval_myst", "pytester"]
