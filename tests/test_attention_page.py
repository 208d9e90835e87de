"""The page of attention: its weights are the model's, no text escapes, and it works with the mouse and the keyboard."""

import base64
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from browser import Browser
from extras import need

from minitransformer.checkpoints import load_model
from minitransformer.cli.main import main
from minitransformer.errors import DataError
from minitransformer.figures import Attentions, attention_page
from minitransformer.generation import hypothesis_attention

CHECKPOINT = Path(__file__).parents[1] / "lessons" / "checkpoints" / "number_words.npz"
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


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture
def page(window, kinds, tmp_path) -> Browser:
    """The window, with the page just opened."""
    path = tmp_path / "page.html"
    path.write_text(made(kinds), encoding="utf-8")
    window.requests.clear()
    window.open(path)
    return window


def word(side: str, index: int) -> str:
    return f"document.querySelectorAll('#{side} button')[{index}]"


def lines(page: Browser) -> list[tuple[int, int, float]]:
    """(query, key, weight) of each line, by head, query and key."""
    found = page.evaluate(
        "[...document.querySelectorAll('line')].map(l => ['y1', 'y2', 'stroke-width'].map(a => +l.getAttribute(a)))"
    )
    return [(int(y1), int(y2), width / 6) for y1, y2, width in found]


def drawn(weights: np.ndarray, queries=range(4), heads=range(N_HEADS)) -> list[tuple[int, int, float]]:
    """The lines that must be there: of weights, as the page has them, from 0.02 on."""
    rounded = np.rint(255 * weights) / 255
    return [
        (query, key, rounded[head, query, key])
        for query in queries
        for key in range(weights.shape[2])
        for head in heads
        if rounded[head, query, key] >= 0.02
    ]


def assert_lines(page: Browser, expected: list) -> None:
    np.testing.assert_allclose(lines(page), expected, atol=1e-6)


def test_pointing_at_a_word_shows_its_lines_alone(page, kinds):
    weights = kinds["cross"].layers[2]
    assert_lines(page, drawn(weights))
    page.point_at(word("queries", 1))
    assert_lines(page, drawn(weights, queries=[1]))
    best = weights.mean(0)[1].argmax()
    status = page.evaluate("document.getElementById('status').textContent")
    assert status.startswith(
        f"\u2068two\u2069 attends to \u2068{ODD[best]}\u2069 {100 * weights.mean(0)[1, best]:.0f} %"
    )
    page.point_at(word("keys", 3))
    assert_lines(page, [line for line in drawn(weights) if line[1] == 3])
    page.point_at("document.getElementById('title')")
    assert_lines(page, drawn(weights))


def test_a_click_keeps_the_lines_of_a_word(page, kinds):
    page.point_at(word("queries", 2), click=True)
    page.point_at(word("queries", 0))
    assert_lines(page, drawn(kinds["cross"].layers[2], queries=[2]))


def test_everything_can_be_done_with_the_keyboard(page, kinds):
    weights = kinds["cross"].layers[2]
    for _ in range(2 + N_HEADS):
        page.press("Tab")
    page.press("Enter")  # on the button of the last head
    assert_lines(page, drawn(weights, heads=range(N_HEADS - 1)))
    page.press("Tab")
    page.press("ArrowDown")
    page.press("ArrowDown")
    page.press("ArrowUp")
    assert_lines(page, drawn(weights, queries=[1], heads=range(N_HEADS - 1)))
    page.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == ODD[1]
    page.press("Escape")
    assert_lines(page, drawn(weights, heads=range(N_HEADS - 1)))


def test_another_layer_and_another_kind_can_be_chosen(page, kinds):
    select = "(id => value => {{ find(id).value = value; find(id).dispatchEvent(new Event('change')); }})('{}')('{}')"
    page.evaluate(select.format("layer", "1"))
    assert_lines(page, drawn(kinds["cross"].layers[1]))
    page.evaluate(select.format("kind", "decoder"))
    assert_lines(page, drawn(kinds["decoder"].layers[1]))
    assert page.evaluate("[...document.querySelectorAll('#keys button')].map(b => b.textContent)")[0] == "<bos>"


def test_subwords_are_shown_as_they_are_and_in_their_own_direction(page):
    assert page.evaluate("[...document.querySelectorAll('#keys button')].map(b => b.textContent)") == ODD
    directions = "[...document.querySelectorAll('#keys button')].map(b => getComputedStyle(b).direction)"
    assert page.evaluate(directions) == ["ltr"] * 7 + ["rtl", "ltr"]


def test_the_page_loads_nothing_and_could_not(page):
    assert [address.partition(":")[0] for address in page.requests] == ["file"]
    image = "document.body.append(Object.assign(new Image(), {src: 'https://example.org/a.png'}))"
    refused = "document.addEventListener('securitypolicyviolation', event => done(event.effectiveDirective))"
    assert page.evaluate(f"new Promise(done => {{ {refused}; {image}; }})") == "img-src"


def test_the_page_is_light_or_dark_as_the_reader_prefers(page):
    need("matplotlib")
    from matplotlib.image import imread

    brightness = {}
    for scheme in ("light", "dark"):
        page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        pixels = imread(io.BytesIO(page.screenshot()))[..., :3]
        brightness[scheme] = np.median(pixels)
        assert np.ptp(pixels, axis=2).max() > 0.3  # the coloured lines
    assert brightness["light"] > 0.95 and brightness["dark"] < 0.15
