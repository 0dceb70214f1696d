"""The error about an atom that cannot be used."""

from __future__ import annotations

from typing import Self

__all__ = ["BadAtomError"]


class BadAtomError(ValueError):
    """An atom with an entry or a score that is not finite.

    Parameters
    ----------
    text : str
        The message, with ``{row}`` where the atom's row is to be named.
    row : int
        The atom's row.

    Examples
    --------
    >>> error = BadAtomError.of_entry(float("nan"), 3, 7)
    >>> print(error)
    atoms has nan at row 3, column 7 (argument 'atoms')
    >>> print(error.counted_from(100))
    atoms has nan at row 103, column 7 (argument 'atoms')
    """

    def __init__(self, text: str, row: int) -> None:
        super().__init__(text, int(row))

    @classmethod
    def of_entry(cls, value: object, row: int, column: int, argument: str = "atoms") -> Self:
        """The error about an entry."""
        return cls(f"{argument} has {value} at row {{row}}, column {column} (argument {argument!r})", row)

    @classmethod
    def of_score(cls, row: int) -> Self:
        """The error about a score that is no number although the entries are."""
        return cls("the score of atom {row} overflows double precision (arguments 'atoms' and 'queries')", row)

    def __str__(self) -> str:
        """Return the message."""
        text, row = self.args
        return str(text).replace("{row}", str(row))

    def counted_from(self, first_row: int) -> Self:
        """Return the same error for atoms that begin at `first_row` of a larger matrix."""
        text, row = self.args
        return type(self)(text, row + first_row)
