"""Pictures for the chain: one round as a tree of paths, and how far wrong laws are by the number of tokens looked at."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.colors import to_rgba

from specdec.book.figures import COLOURS, Drawing, figure, new

Path = tuple[tuple[int, ...], tuple[str, ...]]
"""A round, or its beginning: tokens and their origins."""


def round_tree(paths: Mapping[Path, Any], symbols: Sequence[str], caption: str) -> Drawing:
    """A round as a tree, from the law of (tokens, origins): disc accepted, diamond correction, square the bonus."""
    weights = _beginnings(paths)
    places: dict[Path, tuple[int, float]] = {}
    _place(((), ()), weights, places, 0)
    depth = max(len(tokens) for tokens, _ in weights)
    fig, ax = new(5.2, 0.36 * sum(not _children(path, weights) for path in weights) + 0.6)
    for path, (x, y) in places.items():
        if path == ((), ()):
            ax.annotate("start", (x, y), ha="center", va="center")
            continue
        (tokens, origins), parent = path, (path[0][:-1], path[1][:-1])
        accepted = origins[-1] == "accepted"
        start = (places[parent][0] + (0.1 if x > 1 else 0.2), places[parent][1])
        ax.plot(*zip(start, (x - 0.1, y), strict=True), color="black", linestyle="-" if accepted else "--", linewidth=1)
        marker, colour = ("o", COLOURS[0]) if accepted else ("D", COLOURS[1])
        ax.plot(x, y, marker=marker, markersize=15, markerfacecolor=to_rgba(colour, 0.3), markeredgecolor=colour)
        ax.annotate(symbols[tokens[-1]], (x, y), ha="center", va="center", weight="bold")
        beside = {"xytext": (0, 12), "ha": "center"} if _children(path, weights) else {"xytext": (15, 0), "va": "center"}
        ax.annotate(str(weights[path]), (x, y), textcoords="offset points", size=9.5, **beside)
        if accepted and x == depth:
            ax.plot([x + 0.42, x + 0.55], [y, y], color="black", linestyle=":", linewidth=1)
            ax.plot(x + 0.61, y, marker="s", markersize=8, markerfacecolor=to_rgba(COLOURS[2], 0.5), markeredgecolor=COLOURS[2])
    rows = [y for _, y in places.values()]
    ax.set(xlim=(-0.25, depth + 0.75), ylim=(max(rows) + 0.6, -1.5))
    heads = ["", "first token", "second token", *(f"token {n}" for n in range(3, depth + 1))][: depth + 1]
    for x, head in enumerate(heads):
        ax.annotate(head, (x, -1.2), ha="center", va="center")
    ax.annotate("bonus", (depth + 0.61, -1.2), ha="center", va="center")
    ax.axis("off")
    told = [f"{_name(path, symbols)} {weight}" for path, weight in weights.items() if path[0]]
    alt = f"Tree of a round with {depth} proposals. Each node with its probability: {', '.join(told)}."
    return figure(fig, alt=alt, caption=caption)


def _beginnings(paths: Mapping[Path, Any]) -> dict[Path, Any]:
    """The weight of every beginning of a round, its bonus left out."""
    weights: dict[Path, Any] = {}
    for (tokens, origins), weight in sorted(paths.items(), key=lambda item: (item[0][1], item[0][0])):
        for n in range(len(tokens) - origins.count("bonus") + 1):
            start = tokens[:n], origins[:n]
            weights[start] = weights.get(start, 0) + weight
    return weights


def _children(path: Path, weights: Mapping[Path, Any]) -> list[Path]:
    """The nodes one token behind, accepted ones first."""
    longer = len(path[0]) + 1
    found = [other for other in weights if len(other[0]) == longer and (other[0][:-1], other[1][:-1]) == path]
    return sorted(found, key=lambda other: (other[1], other[0]))


def _place(path: Path, weights: Mapping[Path, Any], places: dict[Path, tuple[int, float]], row: int) -> int:
    """Place a node (depth, row) and all behind it, leaves from ``row`` down; return the next free row."""
    children = _children(path, weights)
    places[path] = (len(path[0]), row)
    for child in children:
        row = _place(child, weights, places, row)
    if children:
        places[path] = (len(path[0]), sum(places[child][1] for child in children) / len(children))
    return row if children else row + 1


def _name(path: Path, symbols: Sequence[str]) -> str:
    return " then ".join(f"{symbols[token]} {origin}" for token, origin in zip(*path, strict=True))


def distance_map(distances: Mapping[str, Sequence[Any]], caption: str) -> Drawing:
    """Total variation by the number of first tokens compared: one row a name, one column a number from 1, shaded by size."""
    columns = max(len(row) for row in distances.values())
    fig, ax = new(5.5, 0.42 * len(distances) + 0.8)
    worst = max(max(row) for row in distances.values())
    told = []
    for place, (name, row) in enumerate(distances.items()):
        for column, distance in enumerate(row, 1):
            shade = 0.0 if distance == 0 else 0.08 + 0.42 * float(distance / worst)
            ax.barh(place, 0.96, left=column - 0.48, height=0.92, color=COLOURS[1], alpha=shade)
            text = "0" if distance == 0 else f"{float(distance):.3f}"
            ax.annotate(text, (column, place), ha="center", va="center", weight="normal" if distance == 0 else "bold", size=9.5)
        told.append(f"{name}: {', '.join(f'{float(distance):.3g}' for distance in row)}")
    ax.set(xlim=(0.5, columns + 0.5), ylim=(len(distances) - 0.5, -0.5), xlabel="first tokens compared")
    ax.set_xticks(range(1, columns + 1))
    ax.set_yticks(range(len(distances)), list(distances), size=9.5)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    heads = f"Total variation from the target's law for the first 1 to {columns} tokens"
    return figure(fig, alt=f"{heads}. {'; '.join(told)}.", caption=caption)
