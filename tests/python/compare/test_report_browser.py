# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""report.html in a browser: it opens with 100000 rows, answers a search with a bounded number of elements, and
a click leads to the row.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import pytest
from msprobe.compare.report import report_html
from msprobe.compare.verdict_file import culprits_of
from report_samples import STACK, finding, pair, report_rows, result

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
needs_browser = pytest.mark.skipif(
    not CHROMIUM, reason="no chromium on this machine (apt-get install chromium)"
)

ROWS = 100_000
MOST_ELEMENTS = 200

# Before the page: notes what goes wrong. After it: acts as a person does and tells what the page shows.
WATCH = """<script>
const faults = [];
addEventListener("error", event => faults.push(String(event.message)));
addEventListener("unhandledrejection", event => faults.push(String(event.reason)));
addEventListener("securitypolicyviolation", event => faults.push("refused: " + event.blockedURI));
for (const name of ["error", "warn"]) console[name] = (...texts) => faults.push(texts.join(" "));
</script>"""
ACT = """<pre id="told"></pre><script>
const told = {faults};
const shown = () => [...document.querySelectorAll("#window .row")];
const frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
function enter(id, value, kind) {
  document.getElementById(id).value = value;
  document.getElementById(id).dispatchEvent(new Event(kind));
}
const click = (target, x, y) => {
  const box = target.getBoundingClientRect();
  for (const kind of ["pointerdown", "pointerup", "click"]) {
    const made = {clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true};
    target.dispatchEvent(kind === "click" ? new MouseEvent(kind, made) : new PointerEvent(kind, made));
  }
};
const texts = () => shown().map(row => row.children[2].textContent);
HTMLElement.prototype.setPointerCapture = () => {};
(async () => {
  try { %s } catch (fault) { faults.push(String(fault.stack)); }
  document.getElementById("told").textContent = JSON.stringify(told);
})();
</script>"""


def told_by(page, actions, tmp_path):
    """Opens the page, does `actions` and returns what they put into `told`. Nothing may go wrong."""
    path = tmp_path / "report.html"
    path.write_text(
        page.replace("<style>", WATCH + "<style>", 1).replace("</body>", ACT % actions + "</body>"), "utf-8"
    )
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1300,900"]
    command += [
        f"--user-data-dir={tmp_path}/profile",
        "--virtual-time-budget=20000",
        "--dump-dom",
        path.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, timeout=300, check=True)
    answer = re.search(r'<pre id="told">(.*?)</pre>', done.stdout.decode("utf-8", "replace"), re.DOTALL)
    assert answer, done.stderr.decode("utf-8", "replace")[-2000:]
    told = json.loads(html.unescape(answer[1]))
    assert told.pop("faults") == []
    return told


def large_page():
    names = [f"Module.layers.{i // 100}.fc{i % 100}.Linear.forward.0" for i in range(ROWS * 6 // 10)]
    names += [f"Module.layers.{i // 100}.fc{i % 100}.Linear.backward.0" for i in range(ROWS - len(names))]
    errors = [0.0 if i < 20_000 else 10 ** (i % 70 / 10) for i in range(ROWS)]
    errors[30_000], errors[30_001] = -1, -2
    blamed = finding(name=names[20_000], record=names[20_000])
    pairs = [
        pair(
            0,
            0,
            [blamed],
            report_rows(names, errors, message="max relative error exceeds 0.5", total=400_000),
        ),
        pair(0, 1, report=report_rows(["Torch.add.0.forward", "Torch.mul.0.forward"], [0.0, 7.0])),
        pair(1, 0, report=report_rows(["Torch.sub.0.forward"])),
    ]
    compared = result(pairs, [blamed])
    return report_html(compared, culprits_of(compared, lambda _: STACK))


@needs_browser
def test_a_hundred_thousand_rows(tmp_path):
    told = told_by(
        large_page(),
        """
        told.sentence = document.getElementById("sentence").textContent;
        told.cut = document.getElementById("cut").textContent;
        told.found = document.getElementById("found").textContent;
        told.picked = document.querySelector("#window .picked").children[2].textContent;
        told.detail = document.getElementById("detail").textContent;
        told.most = [shown().length];
        enter("search", "LAYERS.399. fc7.", "input");
        await frame();
        told.search = [document.getElementById("found").textContent, texts()];
        enter("search", "exceeds", "input");
        await frame();
        told.message = document.getElementById("found").textContent;
        told.most.push(shown().length);
        document.getElementById("rows").scrollTop = 1e9;
        await frame();
        told.last = texts().pop();
        told.most.push(shown().length, document.querySelectorAll("*").length);
        enter("search", "", "input");
        enter("order", "worst", "change");
        await frame();
        told.worst = shown().slice(0, 2).map(row => row.children[4].textContent);
        enter("order", "run", "change");
        told.counts = [];
        for (const choice of ["kind differs", "kind alone", "kind all", "way backward", "part input"]) {
          enter(...choice.split(" "), "change");
          told.counts.push(document.getElementById("found").textContent);
        }
        """,
        tmp_path,
    )
    assert told["sentence"].startswith("The runs part at step 0, rank 0")
    assert told["cut"].startswith("Shown are 100,000 of 400,000 rows")
    assert told["found"] == "100,000 of 100,000 rows"
    assert told["picked"] == "Module.layers.200.fc0.Linear.forward.0.output.0"
    assert "100000 rounding errors" in told["detail"]
    assert told["search"] == [
        "2 of 100,000 rows",
        [f"Module.layers.399.fc7.Linear.{way}.0.output.0" for way in ("forward", "backward")],
    ]
    assert told["message"] == "100,000 of 100,000 rows"
    assert told["last"] == "Module.layers.399.fc99.Linear.backward.0.output.0"
    assert told["worst"] == ["no measure", "7.9e+6"]
    assert [text.split()[0] for text in told["counts"]] == ["79,999", "1", "100,000", "40,000", "0"]
    *rows, elements = told["most"]
    assert 0 < max(rows) < MOST_ELEMENTS
    assert elements < 1000  # in the whole page


@needs_browser
def test_a_click_on_a_point_or_a_cell_leads_to_its_row(tmp_path):
    told = told_by(
        large_page(),
        """
        const picked = () => document.querySelector("#window .picked")?.children[2].textContent;
        enter("kind", "alone", "change");
        const line = document.getElementById("line");
        click(line, chartX(30001), chartY(-2));
        told.point = picked();
        click(document.getElementById("cells"), map.left + 4, map.top + map.cell + 4);
        told.cell = [picked(), document.getElementById("pair").selectedOptions[0].textContent];
        document.querySelector("#culprits button").click();
        told.culprit = picked();
        const box = line.getBoundingClientRect();
        for (const [kind, row] of [["pointerdown", 100000], ["pointermove", 200000], ["pointerup", 200000]]) {
          const made = {clientX: box.left + chartX(row), clientY: box.top + 90, pointerId: 1};
          line.dispatchEvent(new PointerEvent(kind, made));
        }
        told.zoom = [state.from, state.to];
        document.getElementById("whole").click();
        told.whole = [state.from, state.to];
        """,
        tmp_path,
    )
    assert told["point"] == "Module.layers.300.fc1.Linear.forward.0.output.0"
    assert told["cell"] == ["Torch.mul.0.forward.output.0", "step 0, rank 1 (1 row differs)"]
    assert told["culprit"] == "Module.layers.200.fc0.Linear.forward.0.output.0"
    assert told["zoom"] == pytest.approx([100_000, 200_000], abs=2)
    assert told["whole"] == [0, 400_000]


@needs_browser
@pytest.mark.parametrize(
    "name", ["</script><script>document.title='broken'</script>", "<b id=x>", "\u2028\x00\udc80", "__proto__"]
)
def test_hostile_names_are_shown_as_text(name, tmp_path):
    blamed = finding(name=name, record=name, module=name, reason=name)
    compared = result(
        [pair(findings=[blamed], report=report_rows([name], [5.0], message=name))], [blamed], notes=[name]
    )
    told = told_by(
        report_html(compared, culprits_of(compared, lambda _: [name])),
        """
        told.title = document.title;
        told.name = texts()[0];
        told.elements = document.querySelectorAll("b").length;
        """,
        tmp_path,
    )
    shown = re.sub("[\u2028\x00\udc80]", "\ufffd", name)
    assert told == {"title": "The runs differ \u2013 comparison", "name": f"{shown}.output.0", "elements": 1}


@needs_browser
def test_a_page_without_rows_opens(tmp_path):
    told = told_by(
        report_html(result([pair(), pair(0, 1)]), []),
        'told.found = document.getElementById("found").textContent; told.rows = shown().length;',
        tmp_path,
    )
    assert told == {"found": "The rows of this pair are not in the page.", "rows": 0}
