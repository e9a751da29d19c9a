"""The two ways in which the planner says no: the input is wrong, or the input is right and no plan exists."""

from __future__ import annotations


def shown(value: object, longest: int = 60) -> str:
    """Return `value` as short printable text for an error line.

    Parameters: value, any object; longest, characters kept. Returns text of at most `longest` + 1 characters.
    Raises: nothing. An integer too long to print is described by its number of bits.
    """
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        value = value.item()
    try:
        text = repr(value)
    except ValueError:  # CPython refuses to print integers past 4,300 digits
        text = f"an integer of {value.bit_length()} bits" if isinstance(value, int) else object.__repr__(value)
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= longest else text[:longest] + "…"


class InputError(ValueError):
    """A bad input: one clear line naming the field, the value and what is allowed.

    Parameters: field, the dotted name a user would search for; value, what was given; allowed, what would be accepted;
    file, where it was read (empty for a call from Python). Exit code 2 on the command line.
    """

    def __init__(self, field: str, value: object, allowed: str, file: str = ""):
        self.field, self.value, self.allowed, self.file = field, value, allowed, file
        where = f"{file}: " if file else ""
        super().__init__(f"{where}{field} {allowed}, got {shown(value)}")

    def __reduce__(self):  # ValueError would pickle the message alone
        return type(self), (self.field, self.value, self.allowed, self.file)


class Infeasible(Exception):
    """The input is right and nothing satisfies it: the limit that binds and the nearest thing that would work.

    Parameters: cause, one closed word (`weights`, `kv_cache`, `layout`, `slo`, `power`, `fabric`, `demand`, ...);
    limit, the sentence with the numbers; next_step, the nearest feasible point or what to change.
    Exit code 3 on the command line.
    """

    def __init__(self, cause: str, limit: str, next_step: str = ""):
        self.cause, self.limit, self.next_step = cause, limit, next_step
        super().__init__(f"{cause}: {limit}" + (f"; {next_step}" if next_step else ""))

    def __reduce__(self):
        return type(self), (self.cause, self.limit, self.next_step)


class InputErrors(ValueError):
    """Several bad inputs of one file, each an `InputError`, printed a line each. Exit code 2 on the command line."""

    def __init__(self, errors: list[InputError]):
        self.errors = list(errors)
        super().__init__("\n".join(str(e) for e in self.errors))

    def __reduce__(self):
        return type(self), (self.errors,)
