"""The page that trains examples/one_file.py in a browser: its words, its links to the source, and what it learns."""

import functools
import http.server
import importlib.util
import json
import os
import queue
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from systems import chromium

from examples import one_file

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "site" / "one_file"
SOURCE = Path(one_file.__file__).read_text(encoding="utf-8")
SENTENCES = json.loads((PAGE / "sentences.json").read_text(encoding="utf-8"))
SETTINGS = {"N": 1, "batch": 8, "longest": 4, "rate_scale": 0.5, "d_model": 16, "h": 2, "d_ff": 32, "warmup_steps": 20}


def module(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    spec.loader.exec_module(found := importlib.util.module_from_spec(spec))
    return found


build = module(ROOT / "site" / "build.py")
PYODIDE = Path(os.environ.get("MINITRANSFORMER_PYODIDE", ROOT / "build" / "pyodide"))


@pytest.fixture
def driver(monkeypatch):
    monkeypatch.setitem(sys.modules, "one_file", one_file)
    for name in SETTINGS:
        monkeypatch.setattr(one_file, name, getattr(one_file, name))
    return module(PAGE / "driver.py")


def test_both_languages_have_the_same_sentences_and_the_page_uses_all():
    english, korean = SENTENCES["en"], SENTENCES["ko"]
    assert english.keys() == korean.keys()
    for key in english:
        assert sorted(re.findall(r"\{\w+\}", english[key])) == sorted(re.findall(r"\{\w+\}", korean[key])), key
    html, script = ((PAGE / name).read_text(encoding="utf-8") for name in ("index.html", "page.js"))
    used = set(re.findall(r'data-text="(\w+)"', html)) | set(re.findall(r'(?:say|announce|end)\("(\w+)"', script))
    used |= {"is_scaled", "is_not_scaled"}
    assert used == english.keys()


def test_every_picture_comes_from_one_line_of_the_source():
    lines = [
        line.replace("&quot;", '"') for line in re.findall(r'data-line="([^"]*)"', (PAGE / "index.html").read_text())
    ]
    assert len(lines) == 3 and [SOURCE.count(line) for line in lines] == [1, 1, 1]


def test_the_page_asks_no_other_address():
    text = "".join(path.read_text(encoding="utf-8") for path in PAGE.iterdir() if path.is_file())
    assert set(re.findall(r"https?://[\w./]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address


def test_the_driver_trains_as_the_command_line_does(driver):
    run = driver.Run(json.dumps(SETTINGS))
    traced = json.loads(run.advance_traced())
    losses = traced["losses"] + json.loads(run.advance(4))
    assert losses == [loss for _, loss, _ in one_file.train(5)]
    ran = [SOURCE.splitlines()[number - 1].strip().partition("  #")[0] for number in traced["lines"]]
    assert ran.count("A = softmax(np.where(mask, scores, -np.inf))") == 3  # in three attentions of one layer each
    assert ran.index("dQ, dK, dV = map(concat, attention_backward(split(djoined), saved_attention))") > ran.index(
        "loss, dlogits = cross_entropy(x, E, tgt_out)"
    )


def test_what_is_shown_is_what_the_model_gives(driver):
    run = driver.Run(json.dumps(SETTINGS))
    run.advance(3)
    shown = json.loads(run.show())
    source, output, wanted = shown["pairs"][0]
    assert run.reverse(source) == output and source[::-1] == wanted
    weights = np.array(shown["attention"]["weights"])
    assert weights.shape == (SETTINGS["h"], len(wanted) + 1, len(source) + 1)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=5e-3)


def refusal(capsys, output: Path, pyodide: Path) -> str:
    """What a refused build prints."""
    with pytest.raises(SystemExit) as refused:
        build.build(output, pyodide)
    assert refused.value.code == 2
    return capsys.readouterr().err


def test_build_refuses_a_file_that_is_not_pyodides(tmp_path, capsys):
    (tmp_path / "pyodide.js").write_text("alert(1)")
    assert "must have the SHA-256" in refusal(capsys, tmp_path / "site", tmp_path)
    assert not (tmp_path / "site").exists()


def test_build_replaces_no_folder_but_its_own(tmp_path, capsys):
    kept = tmp_path / "one_file" / "thesis.txt"
    kept.parent.mkdir()
    kept.write_text("years of work")
    assert "must be an earlier site or absent" in refusal(capsys, tmp_path, tmp_path)
    assert kept.read_text() == "years of work"


def test_build_replaces_an_earlier_site_and_keeps_what_is_beside_it(site):
    (site / "CNAME").write_text("example.org")
    (site / "one_file" / "old.js").touch()
    build.build(site, PYODIDE)
    assert (site / "CNAME").exists() and not (site / "one_file" / "old.js").exists()


# ---- In Chromium: a page of the test has the built page in a frame, uses it, and sends what it saw to the server


DRIVE = """<meta charset="utf-8"><iframe src="one_file/NAME?lang=en" width=WIDTH height=700></iframe><script>
const frame = document.querySelector("iframe"), page = (code) => frame.contentWindow.eval(code);
const text = (id) => page(`$("${id}").textContent`);
const until = async (code) => { while (!page(code)) await new Promise((again) => setTimeout(again, 100)); };
frame.onload = async () => {
  const seen = await (async () => { STEPS })().catch((error) => ({error: String(error)}));
  seen.width = page("document.documentElement.scrollWidth");
  await fetch("seen", {method: "POST", body: JSON.stringify(seen)});
};</script>"""

TRAIN = """
await until("!$('train').disabled");
page("Object.assign(FIXED, {batch: 8, longest: 4})");
page("$('own').requestSubmit()");
const odd = text("answer");
page("$('settings').requestSubmit()");
await until("runs[0].losses.length >= 30");
const {settings, losses} = page("runs[0]");
page("$('digits').value = '31'; $('own').requestSubmit()");
await until("$('answer').textContent.startsWith('31 → ')");
page("$('stop').click()");
const stopped = text("status");
page("document.querySelector('figure[data-line^=A]').dispatchEvent(new Event('focus'))");
const lit = page("document.querySelector('#source .from').textContent"), heads = page("$('heads').children.length");
page("speak('ko')");
return {odd, settings, losses: losses.slice(0, 30), stopped, lit, heads, korean: [text("train"), text("status")]};
"""
IS_SAID = "await until(`$('status').textContent === ${JSON.stringify(SENTENCE)}`); return {};"
BROKEN = {
    "no_wasm": "delete self.WebAssembly",
    "no_network": "self.Worker = class { constructor() { setTimeout(() => this.onerror()) } }",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    if not PYODIDE.is_dir():
        pytest.skip("no files of Pyodide: run python site/build.py first, or set MINITRANSFORMER_PYODIDE")
    return build.build(tmp_path_factory.mktemp("pages") / "site", PYODIDE)


def in_chromium(site: Path, profile: Path, steps: str, name: str = "index.html", width: int = 1200) -> dict:
    """What the steps saw of the page in a frame of this width, or of it with something broken."""
    command = chromium(profile, "--remote-debugging-port=0")
    answers: queue.Queue = queue.Queue()
    drive = DRIVE.replace("NAME", name).replace("WIDTH", str(width)).replace("STEPS", steps)
    (site / "drive.html").write_text(drive, encoding="utf-8")
    for key, script in BROKEN.items():
        html = (site / "one_file/index.html").read_text(encoding="utf-8")
        (site / f"one_file/{key}.html").write_text(html.replace("<head>", f"<head><script>{script}</script>"), "utf-8")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_POST(self):  # noqa: N802 - the name that http.server calls
            answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_error(204)

        def log_message(self, *_):
            pass

    handler = functools.partial(Handler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/drive.html"
        browser = subprocess.Popen([*command, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            seen = answers.get(timeout=180)
            assert "error" not in seen, seen
            return seen
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()


def test_the_page_trains_and_its_losses_are_those_of_the_command_line(site, tmp_path, driver):
    seen = in_chromium(site, tmp_path, TRAIN)
    for name, value in seen["settings"].items():
        if name != "seed":
            setattr(one_file, name, value)
    np.testing.assert_allclose(seen["losses"], [loss for _, loss, _ in one_file.train(30)], rtol=0, atol=1e-9)
    assert seen["odd"] == "Please type 1 to 4 digits, such as 271828." and seen["heads"] == seen["settings"]["h"]
    assert seen["stopped"].startswith("Stopped after") and seen["lit"].strip().startswith("A = softmax(")
    assert seen["korean"][0] == "학습" and "멈췄습니다" in seen["korean"][1]


@pytest.mark.parametrize("said", BROKEN)
def test_a_browser_that_cannot_gets_one_sentence(said, site, tmp_path):
    steps = IS_SAID.replace("SENTENCE", json.dumps(SENTENCES["en"][said]))
    assert in_chromium(site, tmp_path, steps, f"{said}.html")


def test_on_a_phone_nothing_is_wider_than_the_screen(site, tmp_path):
    steps = "await until(`document.querySelectorAll('#source span').length > 100`); page(`speak('ko')`); return {};"
    assert in_chromium(site, tmp_path, steps, width=360)["width"] <= 360
