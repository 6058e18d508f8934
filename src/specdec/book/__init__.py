"""What only the book's pages need: figures, exercise checks and the Sphinx extension that the site uses.

Nothing in the library imports this package, so ``import specdec`` stays free of Matplotlib and Sphinx.
"""
