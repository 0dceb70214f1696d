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
    >>> error = BadAtomError("atoms has nan at row {row}, column 7", 3)
    >>> print(error)
    atoms has nan at row 3, column 7
    >>> print(error.counted_from(100))
    atoms has nan at row 103, column 7
    """

    def __init__(self, text: str, row: int) -> None:
        super().__init__(text, int(row))

    def __str__(self) -> str:
        """Return the message."""
        text, row = self.args
        return str(text).replace("{row}", str(row))

    def counted_from(self, first_row: int) -> Self:
        """Return the same error for atoms that begin at `first_row` of a larger matrix."""
        text, row = self.args
        return type(self)(text, row + first_row)
