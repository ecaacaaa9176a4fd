# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The local web server: the built page, and the questions of api.py.

What comes in is not trusted. The address that is opened holds a token, made anew at every start; it becomes a
cookie and leaves the address. The Host must be an address in numbers, `localhost`, or the name given with
--host: so a foreign name that resolves to this machine gets nothing. A question must come from the page
itself (Origin, Sec-Fetch-Site) as JSON. Nothing of the disk is served but the page; names of files go through
Library."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import ipaddress
import json
import socket
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from msprobe.native import Error, log
from msprobe.terminal.printable import printable
from msprobe.viewer.packing import encoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Answers(Protocol):
        """What knows the answers of a page."""

        def answer(self, name: str, asked: dict[str, Any]) -> dict[str, Any]:
            """Raises msprobe.Error with a sentence for the page."""


MOST_BODY = 64 << 20
FAILED = "the viewer failed to answer; where it was started it has written why"
_MOST_WAIT = 60  # seconds for one request to arrive
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "worker-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/app.css": ("app.css", "text/css; charset=utf-8"),
}


def _sum(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


# What a link shows is in the fragment of its address, which a form leaves out unless its own address has it.
_KEEP_PLACE = 'document.forms[0].action = "/" + location.hash'
_LOGIN = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>msprobe view</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:34em;margin:15vh auto;padding:0 1em}}
input,button{{font:inherit;padding:.4em .7em}}</style>
<h1>msprobe view</h1>
<p>This viewer asks for the token that <code>msprobe view</code> printed when it was started.
<br>请输入 <code>msprobe view</code> 启动时打印的令牌。</p>
<form method="get" action="/"><input name="token" aria-label="token" autofocus autocomplete="off">
<button>Open / 打开</button></form><script>{_KEEP_PLACE}</script></html>"""
_LOGIN_POLICY = POLICY.replace("script-src 'self'", f"script-src 'sha256-{_sum(_KEEP_PLACE)}'")


def answered(api: Answers, name: str, asked: dict[str, Any]) -> tuple[HTTPStatus, bytes]:
    """Status and body of the answer to a question."""
    try:
        return HTTPStatus.OK, encoded(api.answer(name, asked))
    except Error as error:
        return HTTPStatus.BAD_REQUEST, refusal(str(error))
    except Exception:  # a fault of ours: the page says so, and the next question is answered
        log.exception("msprobe view: the question %r failed", printable(name))
        return HTTPStatus.INTERNAL_SERVER_ERROR, refusal(FAILED)


def refusal(sentence: str) -> bytes:
    return json.dumps({"error": sentence}).encode()


class Server(ThreadingHTTPServer):
    """One thread per request; ends with the process."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, api: Answers, token: str) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        self.api, self.token, self.name = api, token, host

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def url(self) -> str:
        host = f"[{self.name}]" if ":" in self.name else self.name
        host = "127.0.0.1" if host in ("0.0.0.0", "[::]") else host
        return f"http://{host}:{self.port}/?token={self.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no fault."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            log.exception("msprobe view: a request failed")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "msprobe", ""
    timeout = _MOST_WAIT
    disable_nagle_algorithm = True  # or the end of an answer waits for the browser to confirm its beginning
    server: Server

    def do_GET(self) -> None:
        if not self._host_is_known():
            return
        address = urlsplit(self.path)
        given = parse_qs(address.query).get("token", [""])[0]
        if address.path == "/" and given:
            self._log_in(given)
        elif not self._is_logged_in():
            self._ask_for_token()
        elif address.path in PAGE:
            name, kind = PAGE[address.path]
            self._send(HTTPStatus.OK, page_file(name), kind)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing at this address")

    def do_POST(self) -> None:
        if not self._host_is_known():
            return None
        if not self._is_logged_in():
            return self._refuse(
                HTTPStatus.FORBIDDEN, "the token is missing: open the address that was printed"
            )
        if not self._is_of_the_page():
            return self._refuse(HTTPStatus.FORBIDDEN, "only the page of this server may ask")
        asked = self._body()
        if asked is None:
            return None
        name = urlsplit(self.path).path.removeprefix("/api/")
        status, body = answered(self.server.api, name, asked)
        self._send(status, body, "application/json")
        return None

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("msprobe view: %s", printable(format % args))

    # ---- who may ask

    def _host_is_known(self) -> bool:
        host = self.headers.get("Host", "")
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:  # "[", and what else is no host
            self._refuse(HTTPStatus.BAD_REQUEST, "expected the name or address of a host in the header Host")
            return False
        try:
            ipaddress.ip_address(name)
            return True
        except ValueError:
            pass
        if name in ("localhost", self.server.name.lower()):
            return True
        self._refuse(
            HTTPStatus.FORBIDDEN, "this server does not answer to this name: see msprobe view --host"
        )
        return False

    def _is_of_the_page(self) -> bool:
        origin = self.headers.get("Origin")
        own = f"http://{self.headers.get('Host', '')}"
        site = self.headers.get("Sec-Fetch-Site", "same-origin")
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip()
        return origin in (None, own) and site == "same-origin" and kind == "application/json"

    def _is_logged_in(self) -> bool:
        wanted = f"{self._cookie_name()}="
        given = [part.strip() for part in self.headers.get("Cookie", "").split(";")]
        return any(part.startswith(wanted) and self._is_token(part[len(wanted) :]) for part in given)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.server.token.encode())

    def _cookie_name(self) -> str:
        return f"msprobe_{self.server.port}"  # cookies know no ports: several viewers on one machine

    def _log_in(self, given: str) -> None:
        if not self._is_token(given):
            return self._ask_for_token()
        cookie = f"{self._cookie_name()}={given}; HttpOnly; SameSite=Lax; Path=/"
        # Lax: a link in a mail works. A browser keeps the fragment of the address over the redirect.
        self._send(HTTPStatus.FOUND, b"", "text/plain", {"Set-Cookie": cookie, "Location": "/"})
        return None

    def _ask_for_token(self) -> None:
        policy = {"Content-Security-Policy": _LOGIN_POLICY}
        self._send(HTTPStatus.FORBIDDEN, _LOGIN.encode(), "text/html; charset=utf-8", policy)

    # ---- what goes over the wire

    def _body(self) -> dict[str, Any] | None:
        length = self.headers.get("Content-Length", "")
        is_number = length.isascii() and length.isdigit()
        if not is_number and length:
            self.close_connection = True
            self._refuse(HTTPStatus.BAD_REQUEST, "expected a number of bytes in the header Content-Length")
            return None
        # The number of digits first: Python refuses to read a number of thousands of them.
        if not is_number or len(length) > 20 or int(length) > MOST_BODY:
            self.close_connection = True
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected a body below {MOST_BODY >> 20} MB")
            return None
        try:
            asked = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict):
            self._refuse(HTTPStatus.BAD_REQUEST, "expected a JSON object")
            return None
        return asked

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        if self.command == "POST" and status is HTTPStatus.FORBIDDEN:
            self.close_connection = True  # its body is not read
        self._send(status, refusal(sentence), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        packed = len(body) > 1500 and "gzip" in self.headers.get("Accept-Encoding", "")
        if packed:
            body = gzip.compress(body, 1)
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
            **({"Content-Encoding": "gzip"} if packed else {}),
            **(more or {}),
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def page_file(name: str) -> bytes:
    return Path(__file__).parent.joinpath("page", name).read_bytes()
