"""Figures: the data that was passed is drawn, with axes, units and a legend."""

import json
import re
import sys

import numpy as np
import pytest
from extras import need

from minitransformer.cli.main import main
from minitransformer.errors import DataError, MissingPackageError, install_hint, printable
from minitransformer.figures import canvas, draw_attention, draw_attention_lines, draw_learning_curves, picture_bytes
from minitransformer.figures.attention_lines import SMALLEST, WIDEST, head_colors
from minitransformer.figures.curves import DASHES


@pytest.fixture
def drawing():
    return need("matplotlib")


def run_of(rng, n_lines: int) -> list[dict]:
    losses = np.sort(rng.uniform(1, 9, n_lines))[::-1].tolist()
    train = [
        {"kind": "train", "update": 10 * number, "loss": loss, "ppl": float(np.exp(loss - 0.5))}
        for number, loss in enumerate(losses, start=1)
    ]
    valid = [line | {"kind": "valid", "loss": line["loss"] + 0.1} for line in train[::5]]
    return [line for pair in zip(train, valid, strict=False) for line in pair] + train[len(valid) :]


def panels(figure) -> list:
    return [axes for axes in figure.axes if axes.get_visible() and axes.get_label() != "<colorbar>"]


def test_the_curves_are_the_numbers_of_the_metrics_file(drawing, rng):
    lines = run_of(rng, 20)
    figure = draw_learning_curves({"a run": lines})
    for axes, key in zip(figure.axes, ("loss", "ppl"), strict=True):
        for curve, kind in zip(axes.lines, ("train", "valid"), strict=True):
            expected = [(line["update"], line[key]) for line in lines if line["kind"] == kind]
            assert curve.get_xydata().tolist() == [list(pair) for pair in expected]


def test_every_run_has_a_legend_entry_and_its_own_style(drawing, rng):
    figure = draw_learning_curves({name: run_of(rng, 20) for name in "abc"})
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [f"{name}, {kind}" for name in "abc" for kind in ("training", "validation")]
    left = figure.axes[0].lines
    assert [curve.is_dashed() for curve in left[0::2]] == [False, True, True] and len(set(DASHES)) == len(DASHES)
    assert len({curve.get_marker() for curve in left[1::2]}) == 3


@pytest.mark.parametrize("label", ["_old", r"$\frac$", "r\udcff", "a\nb", 1000 * "run"], ids=lambda label: label[:7])
def test_a_run_may_have_any_name(drawing, rng, label):
    figure = draw_learning_curves({label: run_of(rng, 5)})
    assert len(picture_bytes(figure, "svg")) > 1000
    assert figure.legends[0].get_texts()[0].get_text() == f"{printable(label, 60)}, training"


@pytest.mark.parametrize("lines", [[], [{"kind": "epoch", "update": 3}], [{"kind": "train", "update": 3, "ppl": 2.0}]])
def test_a_run_without_curves_is_refused_by_its_name(drawing, lines):
    with pytest.raises(DataError, match="plot curves: my run"):
        draw_learning_curves({"my run": lines})


def test_values_too_large_to_draw_leave_a_gap(drawing, rng):
    lines = run_of(rng, 5)
    for kind in ("train", "valid"):
        line = {"kind": kind, "update": 60, "loss": 10**400, "ppl": np.inf}
        lines += [line, line | {"loss": np.nan, "ppl": 1e199, "update": 70}, line | {"update": -(10**400)}]
    overflown = [line | {"ppl": np.inf} for line in lines]
    for curves in (lines, overflown):
        figure = draw_learning_curves({"a run": curves})
        picture_bytes(figure)
        assert all(np.isnan(curve.get_ydata()).any() for axes in figure.axes for curve in axes.lines)


@pytest.mark.parametrize("key, value", [("ppl", 0), ("ppl", -1.0), ("loss", True), ("loss", "3"), ("update", None)])
def test_a_line_without_its_numbers_is_refused(drawing, rng, key, value):
    with pytest.raises(DataError, match=f"plot curves: my run: {key} must be a number .*, got {value!r}"):
        draw_learning_curves(
            {"my run": [*run_of(rng, 3), {"kind": "train", "update": 9, "loss": 1, "ppl": 2, key: value}]}
        )


def test_each_panel_shows_the_weights_of_its_head(drawing, rng):
    weights = rng.dirichlet(np.ones(5), size=(6, 3))
    figure = draw_attention(weights, list("abcde"), list("xyz"), heads=[2, 5])
    shown = [np.asarray(axes.images[0].get_array()) for axes in panels(figure)]
    assert np.array_equal(shown, weights[[1, 4]])
    assert [axes.get_title() for axes in panels(figure)] == ["head 2", "head 5"]


def test_subwords_label_the_axes_character_by_character(drawing, rng):
    keys, queries = ["A", r"$\no_formula$", "<eos>"], ["größer", "%", "_y^2$", "<eos>"]
    figure = draw_attention(rng.dirichlet(np.ones(3), size=(1, 4)), keys, queries)
    [axes] = panels(figure)
    assert [label.get_text() for label in axes.get_xticklabels()] == keys
    assert [label.get_text() for label in axes.get_yticklabels()] == queries
    assert figure.get_supxlabel() == "source subword"
    picture_bytes(figure)  # a "$" taken for a formula would fail here


def test_weights_of_another_shape_and_unknown_heads_are_refused(drawing, rng):
    weights = rng.dirichlet(np.ones(4), size=(2, 3))
    with pytest.raises(DataError, match=r"weights must have the shape \(heads, 3, 5\), got \(2, 3, 4\)"):
        draw_attention(weights, list("abcde"), list("xyz"))
    with pytest.raises(DataError, match="head must be from 1 to 2, got 3"):
        draw_attention(weights, list("abcd"), list("xyz"), heads=[3])


def test_more_heads_than_fit_a_picture_are_refused(drawing, rng):
    weights = rng.dirichlet(np.ones(2), size=(65, 3))
    for draw in (draw_attention, draw_attention_lines):
        with pytest.raises(DataError, match="at most 64 heads fit a picture, got 65; choose some"):
            draw(weights, ["a", "b"], ["x", "y", "z"])
        draw(weights, ["a", "b"], ["x", "y", "z"], heads=[65])


def test_lines_join_the_words_with_the_color_of_the_head_and_the_width_of_the_weight(drawing, rng):
    weights = rng.dirichlet(np.full(5, 0.3), size=(6, 3))
    weights[:, 1] = 0.0
    figure = draw_attention_lines(weights, list("abcde"), list("xyz"), heads=[2, 5])
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_hex

    drawn = [each for each in figure.axes[0].collections if isinstance(each, LineCollection)]
    for each, head in zip(drawn, [2, 5], strict=True):
        ends = [(round(start[1] - 0.01), round(stop[1] - 0.01)) for start, stop in each.get_segments()]
        shown = [(query, key) for query in (0, 2) for key in range(5) if weights[head - 1, query, key] >= SMALLEST]
        assert ends == shown
        expected = [WIDEST * weights[head - 1, query, key] for query, key in shown]
        np.testing.assert_allclose(each.get_linewidths(), expected)
        assert to_hex(each.get_colors()[0]) == head_colors(6)[head - 1]
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert [text for text in texts if len(text) == 1] == list("xyzabcde")


def test_an_svg_holds_the_words_as_text(drawing, rng):
    from xml.etree import ElementTree

    keys = ["</text>", "$x$", "&amp;", "שלום", "größer"]
    figure = draw_attention_lines(rng.dirichlet(np.ones(5), size=(2, 1)), keys, ["<eos>"])
    root = ElementTree.fromstring(picture_bytes(figure, "svg"))
    texts = {"".join(each.itertext()).strip() for each in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {*keys, "<eos>"} <= texts


def test_letters_that_no_font_has_are_named_in_one_line(drawing, rng, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(canvas, "FONTS", ("DejaVu Sans",))
    words, metrics = ["한국", "국어", "ᚠ"], tmp_path / "metrics.jsonl"
    for draw in (draw_attention, draw_attention_lines):
        figure = draw(rng.dirichlet(np.ones(3), size=(2, 3)), words, words)
        with pytest.warns(UserWarning) as caught:
            assert picture_bytes(figure).startswith(b"\x89PNG")
        (warning,) = caught
        assert "none for ᚠ 국 어 한" in str(warning.message) and "install Noto Sans CJK" in str(warning.message)
    metrics.write_text("".join(f"{json.dumps(line)}\n" for line in run_of(rng, 6)))
    assert main(["plot", "curves", f"ᚠ={metrics}", "-o", str(tmp_path / "a.png")]) == 0
    output = capsys.readouterr()
    start = "minitransformer plot curves: an installed font must have each letter, got none for ᚠ, which became boxes;"
    assert output.out == f"{tmp_path / 'a.png'}\n" and output.err.startswith(start) and output.err.count("\n") == 1
    assert main(["plot", "curves", f"ᚠ={metrics}", "-o", str(tmp_path / "a.svg")]) == 0
    assert capsys.readouterr().err == ""  # its reader's fonts may have the letter


def test_without_matplotlib_the_message_names_the_extra(rng, monkeypatch):
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackageError, match=re.escape(install_hint("plot"))):
        draw_learning_curves({"a run": run_of(rng, 5)})
