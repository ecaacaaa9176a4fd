# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are damaged, foreign or being written, names that would like to be code, and who may ask."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from msprobe import FormatError, InvalidArgument
from msprobe.viewer import api, library, result_file
from msprobe.viewer.api import Api
from msprobe.viewer.export import export
from msprobe.viewer.library import Library
from msprobe.viewer.result_file import open_result
from msprobe.viewer.server import POLICY, Server
from viewer_page import CHROMIUM, MISSING
from viewer_samples import Node, write

# ---- files


def test_reading_leaves_no_trace(tmp_path, asking):
    folder = tmp_path / "results"
    folder.mkdir()
    path = write(folder / "a.vis.db", wal=True)
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    folder.chmod(0o555)
    ask = asking(path)
    ask("list")
    ask("detail", side=0, name="Tensor.add.0.forward")
    folder.chmod(0o755)
    assert [p.name for p in folder.iterdir()] == ["a.vis.db"]
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_a_file_with_a_write_ahead_log_is_read_with_it_and_left_alone(tmp_path, asking):
    path = write(tmp_path / "a.vis.db", wal=True)
    writer = sqlite3.connect(path)
    writer.execute("UPDATE tb_nodes SET precision_index=0.9 WHERE node_name='Tensor.add.0.forward'")
    writer.commit()
    kept = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file() and not p.name.endswith("-shm")}
    assert "a.vis.db-wal" in kept
    nodes = asking(path)("nodes", names=[[0, "Tensor.add.0.forward"]])["nodes"]
    assert nodes[0]["index"] == 0.9
    assert all((tmp_path / name).read_bytes() == content for name, content in kept.items())
    writer.close()


def test_a_log_that_has_grown_is_read_when_the_file_is_opened_again(tmp_path, asking):
    """Not at every question: each would copy the file while its writer is at work."""
    path = write(tmp_path / "a.vis.db", wal=True)
    name = "Tensor.add.0.forward"
    writer = sqlite3.connect(path)

    def change(index):
        writer.execute("UPDATE tb_nodes SET precision_index=? WHERE node_name=?", (index, name))
        writer.commit()

    def shown():
        return ask("nodes", names=[[0, name]])["nodes"][0]["index"]

    ask = asking(path)
    change(0.5)
    assert shown() == 0.5
    change(0.9)
    assert shown() == 0.5
    ask("open")
    assert shown() == 0.9
    writer.close()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"PK\3\4" * 40, "not a SQLite database"),
        (b"SQLite format 3\0" + b"\xff" * 4096, "damaged|cannot be read"),
    ],
)
def test_a_foreign_file_is_named(tmp_path, content, sentence):
    path = tmp_path / "a.vis.db"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=sentence):
        open_result(path)


@pytest.mark.parametrize("table", ["tb_nodes", "tb_config"])
def test_a_missing_table_is_named(tmp_path, table):
    path = write(tmp_path / "a.vis.db")
    connection = sqlite3.connect(path)
    connection.execute(f"DROP TABLE {table}")
    connection.commit()
    connection.close()
    with pytest.raises(FormatError, match=f"no table {table}"):
        open_result(path)


@pytest.mark.parametrize("table", ["tb_nodes", "tb_config", "tb_stack", "msprobe_findings"])
def test_a_view_is_no_table(tmp_path, table):
    """A view could do anything while it is read, for ever too."""
    path = write(tmp_path / "a.vis.db")
    connection = sqlite3.connect(path)
    connection.execute(f"DROP TABLE IF EXISTS {table}")
    connection.execute(
        f"CREATE VIEW {table} AS WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r)"
        " SELECT x FROM r"
    )
    connection.close()
    with pytest.raises(FormatError, match=f"expected a table {table}, found a view"):
        open_result(path)


def test_all_queries_of_an_answer_share_its_time(tmp_path):
    path = write(tmp_path / "a.vis.db")
    endless = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"
    result = open_result(path)
    with result_file.answering(0.2):
        for _ in range(3):  # one that ran as long as a query may would take half a minute
            with pytest.raises(FormatError, match="a question took too long and was ended"):
                result.rows(endless)


def test_a_finding_whose_rank_is_a_text_is_named(tmp_path, asking):
    path = write(tmp_path / "a.vis.db")
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE msprobe_nodes (node)")
    connection.execute("CREATE TABLE msprobe_findings (number, step, rank)")
    connection.execute("INSERT INTO msprobe_findings VALUES (1, 0, 'rs')")
    connection.commit()
    connection.close()
    with pytest.raises(FormatError, match=r"msprobe_findings\.rank: expected a whole number, found 'rs'"):
        asking(path)("open")


def test_an_empty_config_means_that_the_writer_has_not_finished(tmp_path):
    path = write(tmp_path / "a.vis.db")
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM tb_config")
    connection.commit()
    connection.close()
    with pytest.raises(FormatError, match="has not finished"):
        open_result(path)


def test_damage_anywhere_is_an_error_with_a_sentence(tmp_path, asking):
    """Bytes are overwritten at random: an answer or a sentence, never anything else."""
    good = write(tmp_path / "good.vis.db").read_bytes()
    dice = random.Random(5)
    refused = 0
    for number in range(60):
        damaged = bytearray(good)
        for _ in range(dice.randint(1, 300)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        if number % 6 == 0:
            damaged = damaged[: dice.randrange(len(damaged))]
        path = tmp_path / f"{number}.vis.db"
        path.write_bytes(damaged)
        ask = asking(path)
        try:
            info = ask("open")
            place = {"step": info["steps"][0], "rank": info["ranks"][0]}
            ask("tree", **place)
            ask("list", **place, text="linear")
            ask("findings", **place)
            ask("detail", **place, side=0, name="Tensor.add.1.forward")
            ask("overview")
            ask("communication", **place)
        except (FormatError, InvalidArgument):
            refused += 1
    assert refused > 5


@pytest.mark.parametrize(
    "values",
    [
        {"input_data": "[" * 5000, "output_data": "{"},
        {"input_data": '{"a": 1}', "matched_node_link": '{"x": 2}', "matched_distributed": "[1, 2]"},
        {"precision_index": "high", "node_order": "first", "micro_step_id": "x", "node_type": "module"},
        {"matched_distributed": '{"nodes_info": {"x": [1], "1": "y"}}', "parallel_merge_info": "no"},
        {"input_data": None, "sub_nodes": None, "stack_id": None, "up_node": None},
        {"node_name": b"\xff\xfe", "output_data": b"\x80"},
    ],
)
def test_cells_of_other_types_are_passed_over(tmp_path, asking, values):
    path = write(tmp_path / "a.vis.db")
    connection = sqlite3.connect(path)
    for column, value in values.items():
        connection.execute(f"UPDATE tb_nodes SET {column}=? WHERE node_name LIKE 'Tensor.add%'", (value,))
    connection.commit()
    connection.close()
    ask = asking(path)
    assert ask("list")["total"] == 33
    for node in ask("list")["nodes"]:
        ask("detail", side=node["side"], name=node["name"])
    ask("findings")
    ask("communication")
    ask("overview")


# ---- the folder


def test_only_results_below_the_folder_are_served(tmp_path):
    inside = tmp_path / "inside"
    (inside / "deep").mkdir(parents=True)
    write(inside / "deep" / "a.vis.db")
    write(tmp_path / "secret.vis.db")
    (inside / "link.vis.db").symlink_to(tmp_path / "secret.vis.db")
    (inside / "folder").symlink_to(tmp_path)
    (inside / "other.txt").write_text("x")
    library = Library(inside)
    assert [entry["name"] for entry in library.files()] == ["deep/a.vis.db"]
    library.open("deep/a.vis.db")
    wrong = [
        *("../secret.vis.db", "link.vis.db", "folder/secret.vis.db", "other.txt", "deep/../../secret.vis.db"),
        *(str(tmp_path / "secret.vis.db"), "a\0.vis.db", "", ".", "x" * 5000 + ".vis.db"),
    ]
    for name in wrong:
        with pytest.raises(InvalidArgument):
            library.open(name)
    library.close()


def test_one_file_is_one_file(tmp_path):
    write(tmp_path / "a.vis.db")
    write(tmp_path / "b.vis.db")
    library = Library(tmp_path / "a.vis.db")
    assert [entry["name"] for entry in library.files()] == ["a.vis.db"]
    with pytest.raises(InvalidArgument):
        library.open("b.vis.db")
    library.close()


def test_the_copy_of_a_file_that_is_being_written_goes_when_a_new_one_is_made(tmp_path):
    path = write(tmp_path / "a.vis.db", wal=True)
    writer = sqlite3.connect(path)
    library = Library(path)
    copies = []
    for index in (0.5, 0.9):
        writer.execute("UPDATE tb_nodes SET precision_index=?", (index,))
        writer.commit()
        copies.append(library.open(path.name, anew=True).result.source)
    assert [copy.exists() for copy in copies] == [False, True]
    writer.close()
    library.close()
    assert not copies[1].exists()
    assert path.exists()


def test_a_link_that_the_user_names_is_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "elsewhere" / "data.bin")
    link = tmp_path / "link.vis.db"
    link.symlink_to("elsewhere/data.bin")
    library = Library(link)
    (entry,) = library.files()
    assert entry["name"] == "link.vis.db"
    assert entry["size"] > 10_000
    assert library.open("link.vis.db").result.config.task == "summary"
    for name in ("data.bin", "elsewhere/data.bin", "../link.vis.db"):
        with pytest.raises(InvalidArgument):
            library.open(name)
    library.close()
    assert "the whole graph" in export(link, tmp_path / "out.html", step=None, rank=None)


def test_it_is_said_when_there_are_more_files_than_are_listed(tmp_path, asking, monkeypatch):
    for name in "abc":
        write(tmp_path / f"{name}.vis.db")
    for most, shown in ((3, 3), (2, 2)):
        for module in (api, library):
            monkeypatch.setattr(module, "MOST_FILES", most)
        found = asking(tmp_path)("files")
        assert (len(found["files"]), found["more"]) == (shown, most < 3)


def test_a_file_that_was_replaced_is_opened_again(tmp_path, asking):
    path = write(tmp_path / "a.vis.db")
    ask = asking(path)
    assert ask("list")["total"] == 33
    path.unlink()
    write(path, {(0, 0): (Node("DefaultModel", [Node("Torch.a.0.forward")], 0), None)})
    assert ask("list")["total"] == 2


# ---- the server

TOKEN = "a-token-of-the-test"


@pytest.fixture
def server(tmp_path):
    library = Library(write(tmp_path / "a.vis.db"))
    server = Server("127.0.0.1", 0, Api(library), TOKEN)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    library.close()


def request(server, method="POST", path="/api/files", body="{}", **headers):
    """Status, headers and text. As the page asks, unless `headers` say otherwise; None leaves one out."""
    host = f"127.0.0.1:{server.port}"
    usual = {
        "Host": host,
        "Cookie": f"msprobe_{server.port}={TOKEN}",
        "Origin": f"http://{host}",
        "Content-Type": "application/json",
        "Sec-Fetch-Site": "same-origin",
    }
    usual |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in usual.items():
        if value is not None:
            connection.putheader(name, value)
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body.encode() if method == "POST" else None)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), text


def test_the_page_may_ask(server):
    status, headers, text = request(server)
    assert status == 200
    assert json.loads(text)["files"][0]["name"] == "a.vis.db"
    assert "default-src 'none'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": None},
        {"Cookie": "msprobe_1=x"},
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Content_Type": "text/plain"},
    ],
)
def test_nobody_else_may(server, headers):
    status, _, text = request(server, **headers)
    assert status == 403
    assert "a.vis.db" not in text


def test_the_token_of_the_address_becomes_a_cookie(server):
    status, headers, _ = request(server, "GET", f"/?token={TOKEN}", Cookie=None)
    assert (status, headers["Location"]) == (302, "/")
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite" in headers["Set-Cookie"]
    assert request(server, "GET", "/?token=wrong", Cookie=None)[0] == 403
    status, _, text = request(server, "GET", "/", Cookie=None)
    assert status == 403
    assert "token" in text


def test_the_page_is_served_and_nothing_else(server):
    status, headers, text = request(server, "GET", "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "app.js" in text
    for path in ("/app.js", "/app.css"):
        assert request(server, "GET", path)[0] == 200
    for path in ("/../server.py", "/page/app.js", "/a.vis.db", "/%2e%2e/server.py", "//etc/passwd"):
        assert request(server, "GET", path)[0] == 404


@pytest.mark.parametrize("host", ["[", "[::1", "[x]", "a]b"])
def test_a_host_that_is_none_is_refused(server, host):
    status, _, text = request(server, Host=host)
    assert status in (400, 403)
    assert "a.vis.db" not in text
    assert request(server)[0] == 200


@pytest.mark.parametrize(
    ("length", "status"), [("-1", 400), ("+1", 400), ("1e3", 400), ("\xb2", 400), ("9" * 5000, 413)]
)
def test_an_absurd_length_is_refused(server, length, status):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest("POST", "/api/files")
    connection.putheader("Cookie", f"msprobe_{server.port}={TOKEN}")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", length)
    connection.endheaders()
    assert connection.getresponse().status == status
    connection.close()
    assert request(server)[0] == 200


@pytest.mark.parametrize("body", ["", "[]", "x", "[" * 100_000])
def test_a_body_that_is_no_object_is_refused(server, body):
    assert request(server, body=body)[0] == 400


def test_a_body_without_end_is_refused(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest("POST", "/api/files")
    connection.putheader("Cookie", f"msprobe_{server.port}={TOKEN}")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", "99999999999")
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_an_error_is_a_sentence_and_no_stack_trace(server, tmp_path):
    (tmp_path / "a.vis.db").write_bytes(b"SQLite format 3\0" + b"\0" * 200)
    status, _, text = request(server, path="/api/open", body='{"file": "a.vis.db"}')
    assert status == 400
    assert "Traceback" not in text
    assert "a.vis.db" in json.loads(text)["error"]
    assert request(server, path="/api/nothing", body='{"file": "a.vis.db", "step": 0, "rank": 0}')[0] == 400


@pytest.mark.parametrize(
    ("question", "members", "sentence"),
    [
        ("tree", {"nodes": 5}, "nodes: expected a list, found 5"),
        ("tree", {"nodes": [1]}, "nodes: expected [side, name] of a node, found 1"),
        ("tree", {"nodes": [[0, "x", "x"]]}, "nodes: expected a whole number, found 'x'"),
        ("tree", {"nodes": [[0, "x", 10**20]]}, "nodes: expected a whole number, found 1000"),
        ("tree", {"nodes": [[0, 5]]}, "nodes: expected a text, found 5"),
        ("tree", {"reveal": 5}, "reveal: expected [side, name] of a node, found 5"),
        ("tree", {"reveal": [2, "x"]}, "reveal: expected 0 or 1, found 2"),
        ("tree", {"known": [[[], 1]]}, "known: expected 0 or 1, found []"),
        ("tree", {"level": "x"}, "level: expected a whole number"),
        ("tree", {"micro": "x"}, "micro: expected a whole number"),
        ("tree", {"colour": "x"}, "colour: expected an object with `by`, found 'x'"),
        ("tree", {"colour": {"by": 5}}, "by: expected a text, found 5"),
        ("tree", {"colour": {"bounds": ["a"]}}, "bounds: expected up to nine finite numbers, found ['a']"),
        ("list", {"colour": {"bounds": [10**400]}}, "bounds: expected up to nine finite numbers"),
        ("tree", {"workspace": 5}, "workspace: expected a text"),
        ("nodes", {"names": [["0", "x"]]}, "names: expected 0 or 1, found '0'"),
        ("list", {"classes": ["x"]}, "classes: expected a whole number, found 'x'"),
        ("list", {"side": 7}, "side: expected 0 or 1, found 7"),
        ("list", {"offset": 1e20}, "offset: expected a whole number"),
        ("list", {"offset": 10**20}, "offset: expected a whole number"),
        ("list", {"text": "\ud800"}, "text: expected a text of whole characters"),
        ("next", {"from": 5}, "from: expected a text, found 5"),
        ("values", {"places": 5}, "places: expected a list, found 5"),
        ("values", {"places": [["x"]]}, "places: expected a whole number, found 'x'"),
        ("detail", {"side": 0, "name": "\ud800"}, "name: expected a text of whole characters"),
        ("open", {"file": "\ud800.vis.db"}, "file: expected a text of whole characters"),
        ("communication", {"step": 10**20}, "step: expected a whole number"),
        ("own", {"data": {"x": 10**400, "\ud800": 1}}, "own data: none of its members is a number"),
        ("own", {"data": {"x": 1}, "key": 5}, "key: expected a text, found 5"),
        ("make", {"target": 5}, "target: expected a text, found 5"),
        ("match", {"do": "match", "target": "\ud800", "reference": "x"}, "target: expected a text of whole"),
    ],
)
def test_a_malformed_question_is_answered_with_what_was_expected(server, question, members, sentence):
    body = json.dumps({"file": "a.vis.db", "step": 0, "rank": 0, **members})
    status, _, text = request(server, path=f"/api/{question}", body=body)
    assert (status, json.loads(text)["error"][: len(sentence)]) == (400, sentence)


def test_a_fault_of_the_server_is_answered_and_written_down(server, monkeypatch, caplog):
    def fail(name, asked):
        raise KeyError("secret")

    monkeypatch.setattr(server.api, "answer", fail)
    status, _, text = request(server)
    assert status == 500
    assert "secret" not in json.loads(text)["error"]
    assert "files" in caplog.text
    assert "KeyError" in caplog.text


def test_only_the_form_for_the_token_may_run_a_script_of_its_own(server):
    _, headers, text = request(server, "GET", "/", Cookie=None)
    (script,) = re.findall("<script>(.*)</script>", text)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{allowed}'" in headers["Content-Security-Policy"]
    assert request(server, "GET", "/")[1]["Content-Security-Policy"] == POLICY


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
def test_the_form_for_the_token_keeps_what_the_link_shows(server, running):
    running.go(f"http://127.0.0.1:{server.port}/#f=a.vis.db&s=0&r=0&n=0Tensor.add.1.forward")
    running.run(f"document.forms[0].token.value = '{TOKEN}'; setTimeout(() => document.forms[0].submit())")
    running.until("document.querySelector('#app') || document.querySelector('.pane')")
    assert running.run("return location.search") == ""
    running.until("location.hash.includes('Tensor.add.1.forward') && document.querySelector('.pane')")


def test_several_users_at_once(server):
    answers = []

    def user(number: int) -> None:
        for _ in range(5):
            body = {"file": "a.vis.db", "step": 0, "rank": 0, "text": f"linear.{number % 3}"}
            answers.append(json.loads(request(server, path="/api/list", body=json.dumps(body))[2])["total"])

    threads = [threading.Thread(target=user, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [2] * 40


# ---- the command


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "msprobe", "view", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("absent.vis.db",), "absent.vis.db does not exist"),
        ((__file__,), "expected a file *.vis.db"),
        ((".", "--port", "99999"), "expected a number"),
        ((".", "--export", "x.html"), "expected one file"),
    ],
)
def test_wrong_command_lines(arguments, sentence):
    result = run(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_command_serves_until_it_is_ended(tmp_path):
    path = write(tmp_path / "a.vis.db")
    command = [sys.executable, "-m", "msprobe", "view", str(path), "--no-browser", "--port", "0"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "scratch")}
    (tmp_path / "scratch").mkdir()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        address = urlsplit(process.stdout.readline().split()[1])
        assert address.hostname == "127.0.0.1"
        connection = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=20)
        connection.request("GET", f"{address.path}?{address.query}")
        assert connection.getresponse().status == 302
        connection.close()
        process.terminate()
        assert process.wait(20) == 0
    assert list((tmp_path / "scratch").iterdir()) == []
