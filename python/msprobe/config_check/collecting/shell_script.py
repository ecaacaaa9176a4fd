# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The options of the launch command in a shell script. The script is read, never run: substitutions such as
$(...) stay the text that they are, and of control structures only the words are looked at.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import Union

from msprobe.native import FormatError

# A script that doubles its variables again and again fills the memory in a few lines.
_LONGEST_SCRIPT = 1 << 20
_LONGEST_EXPANSION = 1 << 20  # of a word
_LONGEST_COMMANDS = 4 << 20  # of all words together
_MOST_WORDS = 100_000
_DEEPEST = 4  # commands in words of commands: ssh host "bash -c '...'"

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=(.*)", re.DOTALL)
_VARIABLE = re.compile(
    r"\$(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)(?P<all>\[[@*]\])?(?::?[-=](?P<default>[^{}]*))?\})"
)
# Stands for a blank inside $(...), where no word ends; a private character of Unicode.
_BLANK = "\ue000"
_OPTION = re.compile(r"--?[A-Za-z]")
_KEYWORDS = frozenset(("export", "declare", "local", "readonly", "typeset"))
_LAUNCHERS = frozenset(("torchrun", "msrun", "deepspeed", "mpirun", "srun", "mpiexec"))
_LAUNCHER_MODULES = frozenset(
    ("torch.distributed.launch", "torch.distributed.run", "deepspeed.launcher.runner")
)
_PYTHON = re.compile(r"(?:.*/)?python[0-9.]*")
_SCRIPT = re.compile(r".*\.py")
_MAY_LAUNCH = re.compile("|".join(map(re.escape, sorted({*_LAUNCHERS, "accelerate", "python", ".py"}))))
# What stands before a command, and commands that only speak of launchers or install them.
_BEFORE_COMMANDS = frozenset(("!", "do", "else", "exec", "if", "nohup", "sudo", "then", "time", "while", "{"))
_TALKING = frozenset(
    ("alias", "apt", "apt-get", "echo", "grep", "kill", "killall", "man", "module", "pgrep", "pip", "pip3",
     "pkill", "printf", "type", "which")
)  # fmt: skip
# Between words, of a command and of an array: blanks, comments, the end of a line that goes on in the next.
_GAP = re.compile(r"(?:[() \t]|\\\n|#[^\n]*)+")
_GAP_OF_ARRAY = re.compile(r"(?:[ \t\n;|&<>(]|\\\n|#[^\n]*)+")
# Pieces of a word, outside of quotes and inside double ones. A quote that is never closed ends with its line.
_PIECE = re.compile(
    r"\\(?P<escaped>.?)|'(?:(?P<single>[^']*)'|(?P<open>[^\n]*))|(?P<plain>\$\{[^}]{0,4093}\}|[^\s;|&<>()'\"\\`$]+|.)",
    re.DOTALL,
)
_PIECE_IN_QUOTES = re.compile(r"\\(?P<escaped>[\"\\`$])|(?P<line>\\\n)|(?P<plain>[^\"\\`$]+|.)", re.DOTALL)
_TO_CLOSING_QUOTE = re.compile(r"(?:[^\"\\]|\\.)*\"", re.DOTALL)


@dataclass
class _Word:
    """A word in pieces: text and whether it stood in quotes, where variables are not split at blanks;
    `literal` text has no variables at all.
    """

    pieces: list[tuple[str, bool, bool]] = field(default_factory=list)  # text, quoted, literal

    def add(self, text: str, *, quoted: bool, literal: bool) -> None:
        self.pieces.append((text, quoted, literal))

    @property
    def text(self) -> str:
        return "".join(text for text, _, _ in self.pieces)


@dataclass
class _Array:
    words: list[_Word]


_Token = Union[_Word, _Array]  # an array follows the word NAME=
_Variables = dict[str, Union[str, list[str]]]


def launch_options(script: str) -> dict[str, object]:
    """Option -> value of the launch command: text, or true for an option without value. {} when no command
    starts a training. Raises FormatError for what is too long or grows without bound.
    """
    if len(script) > _LONGEST_SCRIPT:
        raise FormatError(f"expected a script of at most {_LONGEST_SCRIPT} characters, found {len(script)}")
    for with_documents in (False, True):  # what is fed to a command may be a script, but mostly is a text
        launch = _launch(_expanded(script, with_documents, 0))
        if launch:
            return _options(launch)
    return {}


def _expanded(script: str, with_documents: bool, depth: int) -> list[list[str]]:
    """The words of all commands, also of those that are words themselves, as of bash -c."""
    variables: _Variables = {}
    commands: list[list[str]] = []
    size = 0
    for command in _Reader(script, with_documents).commands():
        words: list[str] = []
        for word in _assign(command, variables):
            found = _expand(word, variables)
            words += found
            size += sum(map(len, found))
            if len(words) > _MOST_WORDS or size > _LONGEST_COMMANDS:
                raise FormatError(
                    f"expected commands of at most {_MOST_WORDS} words and {_LONGEST_COMMANDS} characters"
                )
        if not words or _is_talking(words):
            continue
        commands.append(words)
        if depth < _DEEPEST:
            for text in words:
                if " " in text and _MAY_LAUNCH.search(text):
                    commands += _expanded(text, with_documents, depth + 1)
    return commands


# ---- words


class _Reader:
    """Cuts a script into commands of words."""

    def __init__(self, script: str, with_documents: bool) -> None:
        self._text = script.removeprefix("\ufeff").replace("\r\n", "\n").removesuffix("\r")
        self._at = 0
        self._with_documents = with_documents
        self._ends: list[str] = []  # of the documents that begin in the next line

    def commands(self) -> list[list[_Token]]:
        found: list[list[_Token]] = [[]]
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in "\n;|&":
                self._at += 1
                found.append([])
                if char == "\n":
                    self._skip_documents()
            elif char in "<>":
                self._skip_redirection(found[-1])
            elif not self._skip(_GAP):
                found[-1] += self._word()
        return [command for command in found if command]

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return match is not None

    def _word(self) -> list[_Token]:
        word = _Word()
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == "(" and word.text.endswith("=") and _ASSIGNMENT.fullmatch(word.text):
                self._at += 1
                return [word, _Array(self._array())]
            if char in " \t\n;|&<>()":
                break
            if char == '"':
                self._double_quoted(word)
            elif self._text.startswith(("$(", "`"), self._at):
                word.add(self._substitution(), quoted=True, literal=True)
            else:
                self._piece(word)
        return [word]

    def _piece(self, word: _Word) -> None:
        match = _PIECE.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        if match["plain"] is not None:
            word.add(match["plain"], quoted=False, literal=False)
        elif match["escaped"] != "\n":
            text = match["escaped"] or match["single"] or match["open"] or ""
            word.add(text, quoted=True, literal=True)

    def _array(self) -> list[_Word]:
        words: list[_Word] = []
        while self._at < len(self._text) and self._text[self._at] != ")":
            if not self._skip(_GAP_OF_ARRAY):
                words += [one for one in self._word() if isinstance(one, _Word)]
        self._at += 1
        return words

    def _double_quoted(self, word: _Word) -> None:
        self._at += 1
        if _TO_CLOSING_QUOTE.match(self._text, self._at) is None:
            end = self._text.find("\n", self._at)
            end = len(self._text) if end < 0 else end
            word.add(self._text[self._at : end], quoted=True, literal=False)
            self._at = end
            return
        word.add("", quoted=True, literal=False)
        while self._at < len(self._text) and self._text[self._at] != '"':
            if self._text.startswith(("$(", "`"), self._at):
                word.add(self._substitution(), quoted=True, literal=True)
                continue
            match = _PIECE_IN_QUOTES.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            text = " " if match["line"] else match["escaped"] or match["plain"]
            word.add(text, quoted=True, literal=match["plain"] is None)
        self._at += 1

    def _substitution(self) -> str:
        """$(...) or `...`, as it is written, with _BLANK for blanks."""
        return re.sub(r"\s", _BLANK, self._substituted())

    def _substituted(self) -> str:
        start = self._at
        if self._text[self._at] == "`":
            close = self._text.find("`", self._at + 1)
            self._at = len(self._text) if close < 0 else close + 1
            return self._text[start : self._at]
        depth = 0
        while self._at < len(self._text):
            char = self._text[self._at]
            depth += (char == "(") - (char == ")")
            self._at += 1
            if char == ")" and depth == 0:
                break
        return self._text[start : self._at]

    def _skip_redirection(self, command: list[_Token]) -> None:
        """2>&1, > log.txt: neither is a word of the command."""
        last = command[-1] if command else None
        if isinstance(last, _Word) and last.text.isdigit() and self._text[self._at - 1].isdigit():
            command.pop()
        is_document = self._text.startswith("<<", self._at) and not self._text.startswith("<<<", self._at)
        while self._at < len(self._text) and self._text[self._at] in "<>&| \t":
            self._at += 1
        if self._at < len(self._text) and self._text[self._at] not in "\n;()":
            words = [one for one in self._word() if isinstance(one, _Word)]
            if is_document and words:
                self._ends.append(words[0].text.removeprefix("-"))

    def _skip_documents(self) -> None:
        """The texts of << that begin here, each up to its last line; all the rest when there is none."""
        ends, self._ends = self._ends, []
        for end in ends if not self._with_documents else ():
            found = re.compile(rf"^\t*{re.escape(end)}$", re.MULTILINE).search(self._text, self._at)
            self._at = found.end() if found else len(self._text)


# ---- variables


def _assign(command: list[_Token], variables: _Variables) -> list[_Word]:
    """Takes the assignments at the beginning of a command; returns the words after them."""
    at = 0
    while at < len(command):
        word = command[at]
        at += 1
        if not isinstance(word, _Word):
            continue
        if word.text in _KEYWORDS or (word.text.startswith("-") and at > 1):
            continue
        match = _ASSIGNMENT.fullmatch(word.text)
        if match is None or word.pieces[0][1]:  # a quoted "A=b" is no assignment
            return [one for one in command[at - 1 :] if isinstance(one, _Word)]
        name, before = match[1], variables.get(match[1]) if match[2] else None
        following = command[at] if at < len(command) else None
        if isinstance(following, _Array):
            values = [one for item in following.words for one in _expand(item, variables)]
            variables[name] = [*before, *values] if isinstance(before, list) else values
            at += 1
        else:
            value = " ".join(_expand(_without(word, match.start(3)), variables, split=False))
            variables[name] = before + value if isinstance(before, str) else value
    return []


def _without(word: _Word, count: int) -> _Word:
    """`word` without its first characters."""
    rest = _Word()
    for text, quoted, literal in word.pieces:
        if text[count:]:
            rest.pieces.append((text[count:], quoted, literal))
        count = max(0, count - len(text))
    return rest


def _expand(word: _Word, variables: _Variables, *, split: bool = True) -> list[str]:
    """The words that `word` stands for. A variable that the script does not set stays as it is written."""
    result: list[list[str]] = [[]]
    began = False
    size = 0
    for (quoted, literal), pieces in itertools.groupby(word.pieces, key=lambda piece: piece[1:]):
        text = "".join(text for text, _, _ in pieces)  # of one kind, so that a variable's name is whole
        for value, is_variable in [(text, False)] if literal else _parts(text, variables):
            if isinstance(value, list):
                words = value
            else:
                words = value.split() if is_variable and split and not quoted else [value]
            if words:
                began = True
                result[-1].append(words[0])
                result += [[one] for one in words[1:]]
                size += sum(map(len, words))
        began = began or quoted
        if size > _LONGEST_EXPANSION:
            raise FormatError(f"expected words of at most {_LONGEST_EXPANSION} characters: variables grow")
    return ["".join(pieces) for pieces in result] if began else []


def _parts(text: str, variables: _Variables) -> list[tuple[str | list[str], bool]]:
    """What it consists of, and what of that is the value of a variable."""
    parts: list[tuple[str | list[str], bool]] = []
    end = 0
    for match in _VARIABLE.finditer(text):
        parts.append((text[end : match.start()], False))
        value = variables.get(match["name"] or match["braced"], match["default"])
        if isinstance(value, list) and not match["all"]:
            value = value[:1]
        parts.append((match[0], False) if value is None else (value, True))
        end = match.end()
    parts.append((text[end:], False))
    return [part for part in parts if part[0] or part[1]]


# ---- the launch command


def _launch(commands: list[list[str]]) -> list[str]:
    """The words from the launcher on: of the first command with a launcher of several processes, preferably
    one that names its program; else of the python command with the most options.
    """
    launches = [words[at:] for words in commands for at in _launchers(words)[:1] if at + 1 < len(words)]
    for words in launches:
        if any(_is_program(words, at) for at in range(1, len(words))):
            return words
    if launches:
        return launches[0]
    plain = [words[at:] for words in commands for at in _first(words, _PYTHON) + _first(words, _SCRIPT)]
    return max(plain, key=lambda words: sum(word.startswith("--") for word in words), default=[])


def _launchers(words: list[str]) -> list[int]:
    return [
        at
        for at, word in enumerate(words)
        if word.rpartition("/")[2] in _LAUNCHERS
        or _is_launching_module(words, at)
        or (word.rpartition("/")[2] == "accelerate" and words[at + 1 : at + 2] == ["launch"])
    ]


def _first(words: list[str], pattern: re.Pattern[str]) -> list[int]:
    return [at for at, word in enumerate(words) if pattern.fullmatch(word)][:1]


def _is_talking(words: list[str]) -> bool:
    head = next((at for at, word in enumerate(words) if word not in _BEFORE_COMMANDS), 0)
    command = words[head].rpartition("/")[2]
    return command in _TALKING or words[head + 1 : head + 3] == ["-m", "pip"]


def _is_launching_module(words: list[str], at: int) -> bool:
    return (
        _PYTHON.fullmatch(words[at]) is not None
        and "-m" in words[at + 1 : at + 4]
        and any(word in _LAUNCHER_MODULES for word in words[at + 1 : at + 5])
    )


def _options(words: list[str]) -> dict[str, object]:
    """--key value, --key=value, --key. Several values of a key are one text, as they are written."""
    options: dict[str, object] = {}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("--") or len(word) == 2:
            continue
        key, equals, value = word[2:].partition("=")
        if equals:
            options[key] = value.replace(_BLANK, " ")
            continue
        values = []
        while at < len(words) and not _is_option(words[at]) and not _is_program(words, at):
            values.append(words[at])
            at += 1
        options[key] = " ".join(values).replace(_BLANK, " ") if values else True
    return options


def _is_option(word: str) -> bool:
    """--key or -k, and not -1.5."""
    return _OPTION.match(word) is not None or word == "--"


def _is_program(words: list[str], at: int) -> bool:
    """train.py or python: what is launched; no value of the option before it."""
    return (
        _SCRIPT.fullmatch(words[at]) is not None
        or _PYTHON.fullmatch(words[at]) is not None
        or words[at].startswith("-m")
    )
