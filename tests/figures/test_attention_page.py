"""The page of attention: its weights are the model's, no text escapes, and it works with the mouse and the keyboard."""

import base64
import json
import re
import subprocess
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from systems import chromium

from minitransformer.checkpoints import load_model
from minitransformer.cli.main import main
from minitransformer.errors import DataError
from minitransformer.figures import Attentions, attention_page
from minitransformer.generation import hypothesis_attention

CHECKPOINT = Path(__file__).parents[2] / "lessons" / "checkpoints" / "number_words.npz"
ODD = ["</script><script>alert(1)</script>", "<!--", "{{data}}", "{{script}}", '"', "\u2028", "&lt;", "שלום", "一二"]
N_HEADS = 3


class Page(HTMLParser):
    """A page as a browser would split it."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.texts, self._open = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self._open = dict(attributes).get("id", tag)

    def handle_data(self, data):
        self.texts[self._open] = self.texts.get(self._open, "") + data

    @property
    def data(self) -> dict:
        return json.loads(self.texts["data"])


def weights_of(kind: dict, layer: str) -> np.ndarray:
    data = np.frombuffer(base64.b64decode(kind["layers"][layer]), np.uint8) / 255
    return data.reshape(-1, len(kind["queries"]), len(kind["keys"]))


@pytest.fixture
def kinds(rng) -> dict[str, Attentions]:
    """Attention of a target of 4 subwords to itself and to a source with odd ones, in two layers."""

    def layers(n_keys: int) -> dict[int, np.ndarray]:
        return {number: rng.dirichlet(np.ones(n_keys), size=(N_HEADS, 4)) for number in (1, 2)}

    target = ["one", "two", "three", "<eos>"]
    return {
        "cross": Attentions("encoder-decoder", "target", target, "source", ODD, layers(len(ODD))),
        "decoder": Attentions("decoder", "target", target, "before", ["<bos>", *target[:3]], layers(4)),
    }


def made(kinds: dict, **options) -> str:
    return attention_page(kinds, **{"title": "a title", "kind": "cross", "layer": 2} | options)


def test_the_weights_in_the_page_are_those_of_the_model(tmp_path):
    path = tmp_path / "page.html"
    options = ["--src", "seven hundred two", "--tgt", "siebenhundertzwei", "-o", str(path)]
    assert main(["plot", "attention", "--checkpoint", str(CHECKPOINT), *options]) == 0
    model, tokenizer = load_model(CHECKPOINT)
    maps = hypothesis_attention(model, *map(tokenizer.encode, (options[1], options[3])))
    data, compared = Page(path.read_text(encoding="utf-8")).data, 0
    names = {"cross": "decoder.{}.cross_attention", "decoder": "decoder.{}.self_attention"}
    for kind, name in {**names, "encoder": "encoder.{}.self_attention"}.items():
        for layer in range(model.config.n_layers):
            found = weights_of(data["kinds"][kind], str(layer + 1))
            assert np.abs(found - maps[name.format(layer)]).max() < 0.5001 / 255
            compared += 1
    assert compared == len(maps)


def test_no_subword_ends_the_script_or_begins_an_element(kinds):
    plain = made({name: replace(each, keys=["a"] * len(each.keys)) for name, each in kinds.items()})
    page = Page(made(kinds, title="</title><b>"))
    assert page.tags == Page(plain).tags
    assert page.data["kinds"]["cross"]["keys"] == ODD and page.data["title"] == "</title><b>"


def test_the_page_has_no_address_in_it(kinds):
    assert not re.search(r"https?:|//\S|\bsrc=|href=|url\(|@import|fetch\(|XMLHttp|import\(", made(kinds))


def test_a_page_of_too_many_weights_or_an_unknown_head_is_refused(kinds):
    with pytest.raises(DataError, match="head must be from 1 to 3, got 4"):
        made(kinds, heads=[4])
    large = replace(kinds["cross"], layers={2: np.broadcast_to(np.float32(0), (80, 4, 20_000))})
    with pytest.raises(DataError, match="at most 4,000,000 weights, got 6,400,000"):
        made({"cross": large})


# In a browser

ACTIONS = """
const seen = {}, word = (side, index) => document.querySelectorAll(`#${side} button`)[index];
const point = (kind, element) => element.dispatchEvent(new PointerEvent("pointer" + kind));
const press = (key, element) => element.dispatchEvent(new KeyboardEvent("keydown", {key}));
const choose = (id, value) => { find(id).value = value; find(id).dispatchEvent(new Event("change")); };
const note = name => seen[name] = [...document.querySelectorAll("line")].map(
  line => ["y1", "y2", "stroke-width"].map(name => +line.getAttribute(name)));
point("enter", word("queries", 1)); note("query 1"); seen.status = find("status").textContent;
point("leave", word("queries", 1)); point("enter", word("keys", 3)); note("key 3");
point("leave", word("keys", 3)); note("all");
word("queries", 2).click(); point("enter", word("queries", 0)); note("query 2 is kept");
press("Escape", word("queries", 2)); note("all again");
document.querySelectorAll(".head")[2].click(); note("without the last head");
press("ArrowDown", word("queries", 0)); seen.focused = document.activeElement.textContent;
document.querySelectorAll(".head")[2].click(); document.activeElement.blur();
seen.words = [...document.querySelectorAll("#keys button")].map(button => button.textContent);
seen.directions = [...document.querySelectorAll("#keys button")].map(button => getComputedStyle(button).direction);
choose("layer", "1"); note("layer 1");
choose("kind", "decoder"); note("decoder, layer 1");
document.body.textContent = JSON.stringify(seen);
"""


def shown(text: str, folder: Path) -> str:
    """The page as Chromium has it after its scripts have run."""
    (folder / "page.html").write_text(text, encoding="utf-8")
    command = chromium(folder / "chromium", "--dump-dom", (folder / "page.html").as_uri())
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=True).stdout


def drawn(weights: np.ndarray, queries=range(4), heads=range(N_HEADS)) -> list[tuple[int, int, float]]:
    """(query, key, weight) of the lines that must be there: of weights, as the page has them, from 0.02 on."""
    rounded = np.rint(255 * weights) / 255
    return [
        (query, key, rounded[head, query, key])
        for query in queries
        for key in range(weights.shape[2])
        for head in heads
        if rounded[head, query, key] >= 0.02
    ]


def test_the_page_draws_its_lines_under_its_own_policy_of_content(kinds, tmp_path):
    assert shown(made(kinds), tmp_path).count("</line>") == len(drawn(kinds["cross"].layers[2]))


def test_mouse_and_keyboard_choose_the_lines_that_are_drawn(kinds, tmp_path):
    text = re.sub("<meta http-equiv=.*?>", "", made(kinds)).replace("</body>", f"<script>{ACTIONS}</script></body>")
    seen = json.loads(unescape(re.search("<body>(.*)</body>", shown(text, tmp_path), re.DOTALL)[1]))
    weights = kinds["cross"].layers[2]
    expected = {
        "query 1": drawn(weights, queries=[1]),
        "key 3": [line for line in drawn(weights) if line[1] == 3],
        "all": drawn(weights),
        "query 2 is kept": drawn(weights, queries=[2]),
        "all again": drawn(weights),
        "without the last head": drawn(weights, heads=range(N_HEADS - 1)),
        "layer 1": drawn(kinds["cross"].layers[1]),
        "decoder, layer 1": drawn(kinds["decoder"].layers[1]),
    }
    for name, lines in expected.items():
        found = [(int(y1), int(y2), width / 6) for y1, y2, width in seen[name]]
        np.testing.assert_allclose(found, lines, atol=1e-6, err_msg=name)
    best = weights.mean(0)[1].argmax()
    share = 100 * weights.mean(0)[1, best]
    assert seen["status"].startswith(f"\u2068two\u2069 attends to \u2068{ODD[best]}\u2069 {share:.0f} %")
    assert seen["focused"] == "two" and seen["words"] == ODD  # as they are, and in their own direction
    assert seen["directions"] == ["ltr"] * 7 + ["rtl", "ltr"]
