# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The viewer as a tab of TensorBoard: results `*.vis.db` below its --logdir.

TensorBoard finds it by the entry point `tensorboard_plugins` of the package, where TensorBoard is installed;
nothing else imports this module. The tab holds the page of `msprobe view` in a frame and answers the same
questions; who may reach it is decided by how TensorBoard was started."""

from __future__ import annotations

import json
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from tensorboard.plugins import base_plugin  # type: ignore[import-not-found]

from msprobe.viewer.api import Api
from msprobe.viewer.library import Library
from msprobe.viewer.server import MOST_BODY, PAGE, POLICY, answered, page_file, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Environment = dict[str, Any]
    Start = Callable[[str, list[tuple[str, str]]], object]

_FRAME = """export function render() {
  const frame = document.createElement("iframe");
  frame.src = "page/index.html";
  frame.title = "msprobe";
  frame.style = "border: 0; position: fixed; inset: 0; width: 100%; height: 100%";
  document.body.append(frame);
}
"""
_FILES = {name: kind for name, kind in PAGE.values()}
_POLICY = POLICY.replace("frame-ancestors 'none'", "frame-ancestors 'self'")


class Tab(base_plugin.TBPlugin):  # type: ignore[misc]
    """Thread-safe; serves nothing outside the folder that TensorBoard shows."""

    plugin_name = "msprobe"

    def __init__(self, context: Any) -> None:
        folder = Path(context.logdir) if context.logdir else None
        self._library = Library(folder) if folder is not None and folder.is_dir() else None
        self._api = None if self._library is None else Api(self._library)

    def is_active(self) -> bool:
        return self._library is not None and bool(self._library.files())

    def frontend_metadata(self) -> Any:
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="msprobe")

    def get_plugin_apps(self) -> dict[str, Any]:
        return {"/index.js": self._serve_frame, "/page/*": self._serve}

    def _serve_frame(self, environment: Environment, start: Start) -> Iterable[bytes]:
        return _send(start, HTTPStatus.OK, _FRAME.encode(), "text/javascript")

    def _serve(self, environment: Environment, start: Start) -> Iterable[bytes]:
        name = str(environment.get("PATH_INFO", "")).rpartition("/page/")[2]
        if environment.get("REQUEST_METHOD") == "POST":
            return self._answer(name.removeprefix("api/"), environment, start)
        if name in _FILES:
            return _send(start, HTTPStatus.OK, page_file(name), _FILES[name])
        return _refuse(start, HTTPStatus.NOT_FOUND, "there is nothing at this address")

    def _answer(self, name: str, environment: Environment, start: Start) -> Iterable[bytes]:
        if not _is_of_the_page(environment):
            return _refuse(start, HTTPStatus.FORBIDDEN, "only the page of this server may ask")
        length = str(environment.get("CONTENT_LENGTH") or "")
        if not length.isdecimal() or int(length) > MOST_BODY:
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            return _refuse(start, status, f"expected a body below {MOST_BODY >> 20} MB")
        try:
            asked = json.loads(environment["wsgi.input"].read(int(length)))
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict) or self._api is None:
            return _refuse(start, HTTPStatus.BAD_REQUEST, "expected a JSON object")
        return _send(start, *answered(self._api, name, asked), "application/json")


def _is_of_the_page(environment: Environment) -> bool:
    origin = environment.get("HTTP_ORIGIN")
    is_own = origin is None or urlsplit(origin).netloc == environment.get("HTTP_HOST")
    site = environment.get("HTTP_SEC_FETCH_SITE", "same-origin")
    kind = str(environment.get("CONTENT_TYPE", "")).partition(";")[0].strip()
    return is_own and site == "same-origin" and kind == "application/json"


def _refuse(start: Start, status: HTTPStatus, sentence: str) -> Iterable[bytes]:
    return _send(start, status, refusal(sentence), "application/json")


def _send(start: Start, status: HTTPStatus, body: bytes, kind: str) -> Iterable[bytes]:
    headers = [
        ("Content-Type", kind),
        ("Content-Length", str(len(body))),
        ("Content-Security-Policy", _POLICY),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
    ]
    start(f"{status.value} {status.phrase}", headers)
    return [body]
