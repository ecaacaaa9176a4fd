# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Reading a pack, which may be damaged, foreign or hostile: nothing is believed before it is checked, and
nothing outside the names of docs/formats/config_check.md is looked at.
"""

from __future__ import annotations

import json
import os
import stat
import struct
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.config_check.packs import pack, parts
from msprobe.files.atomic_file import make_directory
from msprobe.files.credentials import concealed_in, concealed_tree
from msprobe.files.regular_file import open_to_read, open_to_write
from msprobe.native import Error, FormatError, InvalidArgument, IoError, core

if TYPE_CHECKING:
    from collections.abc import Iterator

# JSON of numbers shrinks to a tenth, of equal numbers to a hundredth; deflate can do a thousandth.
_MOST_SHRINKING = 400
_SMALL = 16 << 20
_LARGEST_DIRECTORY = 256 << 20  # bytes of the zip's directory; each entry needs 46 and its name
_MOST_NAMED = 3

_END = struct.Struct("<4s4H2LH")  # end of central directory
_END_MARK = b"PK\x05\x06"
_LONGEST_COMMENT = 0xFFFF
_ENCRYPTED = 1
_MAY_HOLD_SECRETS = (pack.ENVIRONMENT, pack.STATIC, pack.DYNAMIC, pack.VARIABLES)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_WRITERS = 4  # threads

Tree = Any  # what a JSON file holds
# Name, offset, bytes in the file, bytes once unpacked, CRC-32, whether it is deflated.
EntryInFile = tuple[str, int, int, int, int, bool]


class Pack:
    """The entries of one pack. `problems` grows while it is read: one sentence for each part that is missing
    from the comparison, and why.
    """

    def __init__(self, path: Path, file: core.PackFile | None = None) -> None:
        self.path = path
        self.file = file  # None for a pack that was never written
        self.problems: list[str] = []
        self._parts: dict[str, zipfile.ZipInfo] = {}
        self._texts: dict[str, str] = {}
        self._files: dict[str, dict[tuple[int, int], str]] = {kind: {} for kind in pack.KINDS}
        self._trees: dict[str, Tree] = {}

    @staticmethod
    def of_texts(path: Path, texts: dict[str, str]) -> Pack:
        """A pack that was never written, as of the live process."""
        result = Pack(path)
        for name, text in texts.items():
            result._texts[name] = text
            result._note(name)
        result._sort()
        return result

    def has(self, name: str) -> bool:
        return name in self._parts or name in self._texts

    def files(self, kind: str) -> dict[tuple[int, int], str]:
        """The entries of a kind (see pack.KINDS) by step and rank, in this order."""
        return self._files[kind]

    @property
    def is_ours(self) -> bool:
        """Whether msprobe made it, and not mindstudio-probe."""
        return self.has(pack.ABOUT)

    def about(self) -> dict[str, Any]:
        content = self.json(pack.ABOUT) if self.is_ours else None
        return content if isinstance(content, dict) else {}

    def bytes(self, name: str) -> bytes | None:
        """None for what is not there, and, with a problem noted, for what is damaged."""
        if name in self._texts:
            return self._texts[name].encode("utf-8", "backslashreplace")
        entry = self.entry(name)
        if entry is None or self.file is None:
            return None
        try:
            content: bytes = self.file.content(entry)
        except FormatError as error:
            self.leave_out(name, f"it is damaged: {str(error).removeprefix(f'{name}: ')}")
            return None
        # mindstudio-probe writes credentials down; they go no further, and are compared by their hashes.
        return _concealed(name, content) if name in _MAY_HOLD_SECRETS and not self.is_ours else content

    def entry(self, name: str) -> EntryInFile | None:
        """Where it lies in the file."""
        part = self._parts.get(name)
        if part is None:
            return None
        deflated = part.compress_type == zipfile.ZIP_DEFLATED
        return name, part.header_offset, part.compress_size, part.file_size, part.CRC, deflated

    def text(self, name: str) -> str | None:
        """As bytes()."""
        content = self.bytes(name)
        return None if content is None else content.decode("utf-8", "backslashreplace")

    def json(self, name: str) -> Tree | None:
        """The content of a JSON entry, an object; None as for bytes()."""
        if name in self._trees:
            return self._trees[name]
        text = self.text(name)
        tree = None if text is None else self._parsed(name, text)
        if name in pack.SINGLE:  # the others are asked for once, and may be many
            self._trees[name] = tree
        return tree

    def _parsed(self, name: str, text: str) -> Tree | None:
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError) as error:
            self.leave_out(name, f"expected JSON: {error}")
            return None
        if not isinstance(tree, dict):
            self.leave_out(name, f"expected a JSON object, found {type(tree).__name__}")
            return None
        return tree

    def extract(self, folder: Path) -> None:
        """Writes the entries to their places below `folder`, which has no files yet: all but fingerprints,
        which are half of them and tell a person nothing. Raises IoError.
        """
        names = [name for name in self._names() if not name.startswith(pack.FINGERPRINTS)]
        for parent in dict.fromkeys((folder / name).parent for name in names):
            make_directory(parent)
        # What takes long is the file system, which can do several things at once.
        with ThreadPoolExecutor(_WRITERS) as pool:
            for _ in pool.map(lambda name: self._extract(name, folder / name), names):
                pass

    def _extract(self, name: str, target: Path) -> None:
        content = self.bytes(name)
        if content is None:
            return
        # Nothing reads these files before the result is complete, so they need no second name.
        try:
            with open_to_write(target, is_new=True) as file:
                file.write(content)
        except OSError as error:
            result = IoError(f"cannot write {target}: {error.strerror or error}")
            result.errno, result.filename = error.errno, str(target)
            raise result from error

    def names(self) -> list[str]:
        """Of all entries, in the order of the file."""
        return list(self._names())

    def _names(self) -> Iterator[str]:
        yield from self._parts
        yield from self._texts

    def _sort(self) -> None:
        self._files = {kind: dict(sorted(files.items())) for kind, files in self._files.items()}

    def _note(self, name: str) -> bool:
        place = pack.place(name)
        if place is None:
            return False
        kind, step, rank = place
        if kind in self._files:
            self._files[kind][step, rank] = name
        return True

    def leave_out(self, name: str, why: str) -> None:
        """Notes that an entry is not compared."""
        sentence = f"{self.path}: {name} was left out: {why}"
        if sentence not in self.problems:
            self.problems.append(sentence)

    def _take(self, parts: list[zipfile.ZipInfo]) -> None:
        """Of several entries of one name the last one counts, as mindstudio-probe has it."""
        foreign: list[str] = []
        for part in parts:
            if part.is_dir():
                continue
            why = _refusal(part)
            if why is not None:
                self.leave_out(part.filename, why)
            elif self._note(part.filename):
                self._parts[part.filename] = part
            else:
                foreign.append(part.filename)
        self._sort()
        if foreign:
            names = ", ".join(repr(name[:80]) for name in foreign[:_MOST_NAMED])
            more = ", ..." if len(foreign) > _MOST_NAMED else ""
            self.problems.append(f"{self.path}: left out what is no part of a pack: {names}{more}")

    def __enter__(self) -> Pack:
        return self

    def __exit__(self, *_: object) -> None:
        self.file = None


def _concealed(entry: str, content: bytes) -> bytes:
    """The variables or hyper-parameters of another tool without credentials, else as they are."""
    of_model = entry != pack.ENVIRONMENT
    text = content.decode("utf-8", "backslashreplace")
    try:
        tree = json.loads(text)
        if not isinstance(tree, dict):
            return content
        written = {name: concealed_tree(name, value, of_model=of_model) for name, value in tree.items()}
        return content if written == tree else json.dumps(written, indent=4).encode()
    except (ValueError, RecursionError):
        return concealed_in(text).encode("utf-8", "backslashreplace")


def read_pack(path: str | os.PathLike[str]) -> Pack:
    """Opens a pack, with the parts of processes that did not end. Raises InvalidArgument for a path that
    names no file, and FormatError for what is no zip, is damaged as a whole, or is too large once unpacked.
    """
    where = Path(path)
    found = parts.newest(parts.parts_of(where))
    if not found:
        return _read_file(where, where)
    with tempfile.TemporaryDirectory(prefix="msprobe_pack_") as folder:
        whole = Path(folder, "joined.zip")
        sources = [part.path for part in found]
        if where.is_file() and parts.is_of(found[0], _run_of(where)):
            sources.append(where)
        try:
            problems = parts.join(sources, whole)
        except OSError as error:
            raise IoError(f"cannot join the parts of {where}: {error.strerror or error}") from error
        result = _read_file(whole, where)  # it is mapped
    result.problems += problems
    return result


def _run_of(path: Path) -> str:
    """The run that wrote a pack; empty: it is not known."""
    try:
        return str(_read_file(path, path).about().get("run", ""))
    except Error:
        return ""


def _read_file(path: Path, name: Path) -> Pack:
    """name: what messages call it."""
    if not path.is_file():
        found = "is no file" if path.exists() else "does not exist"
        raise InvalidArgument(f"{name} {found}; expected a pack, a zip file")
    _check_end(path)
    try:
        with open_to_read(path) as file, zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, struct.error) as error:
        raise FormatError(f"{name}: expected a pack, a zip file, found a damaged one: {error}") from error
    except OSError as error:
        raise InvalidArgument(f"{name}: cannot read the pack: {error.strerror or error}") from error
    _check_sizes(path, entries)
    result = Pack(name, core.PackFile(path))
    result._take(entries)
    _check_kind(name, result)
    return result


def _check_end(path: Path) -> None:
    """Before Python's reader makes an object of each entry: how many are there?"""
    try:
        size = path.stat().st_size
        with open_to_read(path) as file:
            file.seek(max(0, size - _END.size - _LONGEST_COMMENT))
            tail = file.read()
    except OSError as error:
        raise InvalidArgument(f"{path}: cannot read the pack: {error.strerror or error}") from error
    at = tail.rfind(_END_MARK)
    if at < 0 or len(tail) - at < _END.size:
        raise FormatError(
            f"{path}: expected a pack, a zip file, found {size} bytes that are none, or one that was cut off"
        )
    directory = _END.unpack_from(tail, at)[5]
    if directory > _LARGEST_DIRECTORY and directory != 0xFFFFFFFF:
        raise FormatError(f"{path}: expected a pack, found a zip with a directory of {directory} bytes")
    if directory == 0xFFFFFFFF and size > pack.LARGEST_CONTENT:
        raise FormatError(f"{path}: expected a pack of at most 10 GiB, found {size} bytes")


def _check_sizes(path: Path, parts: list[zipfile.ZipInfo]) -> None:
    content = sum(part.file_size for part in parts)
    packed = sum(part.compress_size for part in parts)
    # Entries may share the same bytes of the file, so it counts, too.
    packed = min(packed, path.stat().st_size)
    if content > pack.LARGEST_CONTENT or content > max(packed * _MOST_SHRINKING, _SMALL):
        raise FormatError(f"{path}: expected a pack, found {packed} bytes that unpack to {content}")


def _refusal(part: zipfile.ZipInfo) -> str | None:
    mode = part.external_attr >> 16
    checks: tuple[tuple[bool, str], ...] = (
        (part.header_offset < 0, "it begins before the file"),
        (stat.S_ISLNK(mode), "it is a symbolic link"),
        (stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFLNK), "it is no regular file"),
        (bool(part.flag_bits & _ENCRYPTED), "it is encrypted"),
        (part.compress_type not in _METHODS, "it is compressed in another way than by deflate"),
        (part.file_size > pack.LARGEST_ENTRY, f"it has {part.file_size} bytes, more than 1 GiB"),
    )
    return next((why for fails, why in checks if fails), None)


def _check_kind(path: Path, found: Pack) -> None:
    if not any(True for _ in found._names()):
        detail = f": {found.problems[0]}" if found.problems else ""
        raise FormatError(
            f"{path}: expected a pack of config_check (entries env, pip, dataset/..., weights/..., "
            f"hyperparameters/..., random/...), found none of them{detail}"
        )
    version = found.about().get("format")
    if isinstance(version, int) and version > pack.FORMAT:
        found.problems.append(
            f"{path}: it was made by a newer msprobe (format {version}, this one knows {pack.FORMAT}): what "
            "is new in it was not compared"
        )
