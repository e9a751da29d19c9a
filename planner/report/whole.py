"""A file made whole beside its place and then moved there: a reader never sees half of it, and a failure leaves nothing behind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from planner.errors import InputError
from planner.facts.files import regular


def spare(path: str | Path, inputs: Iterable[str | Path], field: str) -> None:
    """Refuse to write over a file that is read, under whatever spelling or link. Raises: InputError naming the file that would be lost."""
    for one in inputs:
        for read in (one, os.path.join(one, "config.json")):  # a model may be named by its folder
            try:
                same = os.path.samefile(path, read)
            except (OSError, ValueError):  # one of them is not there, or is no name of a file
                continue
            if same:
                raise InputError(field, str(path), f"must not be a file that is read ({os.path.basename(read)})")


@contextmanager
def whole_file(path: str | Path, field: str, keep: bool = True) -> Iterator[Path]:
    """Yield a path to write to; what was written there becomes the file at `path` when the block ends well.

    Parameters: path; field, what the user calls it, for messages; keep, False to try the place and leave nothing. Raises: InputError for a place
    that cannot be written, a symbolic link, or what is there and no regular file (a folder, a device).
    """
    target, stage = Path(path), None
    if not str(path).strip():
        raise InputError(field, str(path), "must name a file")
    try:
        if target.is_symlink():
            raise InputError(field, str(path), "must not be a symbolic link")
        if target.exists() and not regular(target):
            raise InputError(field, str(path), "must be a file, not a folder or a device")
        handle, stage = tempfile.mkstemp(prefix=f".{target.name[:100]}-", dir=target.parent)
        os.close(handle)
        yield Path(stage)
        if keep:
            os.chmod(stage, 0o644)
            os.replace(stage, target)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(field, str(path), f"must be a file that can be written ({getattr(error, 'strerror', None) or error})") from None
    finally:
        if stage is not None and os.path.exists(stage):
            os.unlink(stage)
