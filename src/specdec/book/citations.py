"""The bibliography's style: an entry is called what the text calls it, and braces do not put a company behind Z."""

from collections.abc import Iterable, Iterator
from typing import Any

from pybtex.richtext import Text
from pybtex.style.formatting.plain import Style
from pybtex.style.labels import BaseLabelStyle
from pybtex.style.sorting.author_year_title import SortingStyle


class AuthorYear(BaseLabelStyle):
    """Labels such as ``Leviathan et al. 2023``, as the references have them."""

    def format_labels(self, sorted_entries: Iterable[Any]) -> Iterator[str]:
        """Yield an entry's label."""
        for entry in sorted_entries:
            names = [str(Text.from_latex(" ".join(person.last_names))) for person in entry.persons["author"]]
            known = f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
            yield f"{known} {entry.fields['year']}"


class ByName(SortingStyle):
    """By the authors' names, without their braces."""

    def person_key(self, person: Any) -> str:
        """Return what a person is sorted by."""
        return str(super().person_key(person)).replace("{", "").replace("}", "")


class BookStyle(Style):
    """Pybtex's plain style with these labels in this order."""

    default_label_style = AuthorYear
    default_sorting_style = ByName
