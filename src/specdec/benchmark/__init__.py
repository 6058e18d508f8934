"""What the decoder costs and gains on this machine: ``python -m specdec.benchmark`` prints a table and writes JSON.

Everything compared runs in one process, in turns of alternating order; a figure is the median of ratios within a turn.
"""
