"""Training the book's models; needs the extra: ``pip install "specdec[training]"``. See ``python -m specdec.training --help``."""
