"""``my_transformer``: the glue is the engine's Transformer, a reader's own parts enter it, and a page tells what is."""

import inspect
import linecache
import sys

import numpy as np
import pytest

from course import check
from course.assembly import assembled
from course.certificate import certificate
from course.drawings.model import draw_own_figure_1
from course.exercise import exercises_of, solution_of
from course.mine import kept, source_hash
from minitransformer.config import ModelConfig
from minitransformer.models import Transformer
from solutions import my_llm
from solutions import my_transformer as glue

CELL = """
class MyVar:
    def __init__(self, data, parents=(), backward=None):
        self.data, self.parents, self.backward = data, parents, backward

    def __add__(self, other):
        return MyVar(self.data + other.data, (self, other), lambda grad: (grad, grad))

class OpenVar:
    def __init__(self, data, parents=(), backward=None): ...

    def __add__(self, other):
        return ...
"""


@pytest.fixture
def cells(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITRANSFORMER_MINE", str(tmp_path))
    linecache.cache["cell"] = len(CELL), None, CELL.splitlines(keepends=True), "cell"
    names = {"__name__": "__main__"}
    exec(compile(CELL, "cell", "exec"), names)
    return names


def with_engines_names(vector, shapes):
    """The parameters under the engine's names."""
    p, found = {name: each.data for name, each in glue.views(vector, shapes).items()}, {}
    for side, attentions in (("encoder", ["self"]), ("decoder", ["self", "cross"])):
        for i in range(2):
            own, place = f"{side} {i}", f"{side}.layers.{i}"
            for name in attentions:
                path = f"{place}.{name}_attention"
                found[f"{path}.w_q.weight"], found[f"{path}.w_o.weight"] = p[f"{own} {name} q"], p[f"{own} {name} o"]
                found[f"{path}.w_kv.weight"] = np.hstack([p[f"{own} {name} k"], p[f"{own} {name} v"]])
            found |= {f"{place}.feed_forward.{w}": p[f"{own} {w}"] for w in ("w1", "b1", "w2", "b2")}
            for j, name in enumerate([*(f"{each}_attention" for each in attentions), "feed_forward"]):
                for w in ("gamma", "beta"):
                    found[f"{place}.{name}_residual.norm.{w}"] = p[f"{own} {w} {j}"]
    return found | {"embedding": p["table"]}


def test_the_glue_gives_the_engines_logits():
    rng = np.random.default_rng(0)
    shapes = glue.shapes_of(13, 2, 8, 12)
    vector = glue.first_vector(shapes, rng) + 0.3 * rng.standard_normal(glue.first_vector(shapes, rng).shape)
    model = Transformer(ModelConfig(vocab_size=13, n_layers=2, d_model=8, n_heads=2, d_ff=12), seed=0)
    named = with_engines_names(vector, shapes)
    assert sorted(named) == sorted(model.parameters.names)
    for name, value in named.items():
        model.parameters[name].data[...] = value
    src, tgt_in = np.array([3, 7, 12, 5]), np.array([1, 4, 9])
    p = glue.views(vector, shapes)
    logits = glue.decode(p, tgt_in, glue.encode(p, src, 2, 2), 2, 2).data
    np.testing.assert_allclose(logits, model(src[None], tgt_in[None]).data[0], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(("module", "lines"), [(glue, 120), (my_llm, 60)], ids=["my_transformer", "my_llm"])
def test_the_glue_is_typed_whole_and_is_short(module, lines):
    """The notebook gives no piece of it, and says how many lines it has at most."""
    pieces = [solution_of(name) for name in exercises_of(module.__name__.removeprefix("solutions."))]
    defined = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    assert {piece.__name__ for piece in pieces} == defined
    lengths = [len([line for line in inspect.getsource(piece).splitlines() if line]) for piece in pieces]
    assert sum(lengths) <= lines and max(lengths) <= 15


def test_a_class_is_kept_and_an_open_one_waits(cells, capsys):
    check("my_transformer.Var", cells["OpenVar"])
    assert capsys.readouterr().out == "my_transformer.Var: not yet.\n"
    check("my_transformer.Var", cells["MyVar"])
    assert capsys.readouterr().out.endswith("It is kept as yours.\n")
    model, faults = assembled()
    assert model.Var is kept("my_transformer.Var") and model.Var.__name__ == "MyVar"
    assert [name for name, fault in faults.items() if not fault] == ["my_transformer.Var"]


def test_the_certificate_names_what_is_yours_and_hashes_it(cells, tmp_path):
    check("my_transformer.Var", cells["MyVar"])
    _, faults = assembled()
    before = source_hash(["my_transformer.Var"])
    certificate(faults, {"Copying": "<3 of 100>"}, np.linspace(3, 1, 30), 2.3)
    page = (tmp_path / "certificate.html").read_text(encoding="utf-8")
    assert "1 of 43 functions: my_transformer.Var<" in page and "&lt;3 of 100&gt;" in page and before in page
    assert "does not prove who wrote them" in page
    assert (tmp_path / "certificate.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "my_transformer.Var.py").open("a") as file:
        file.write("# changed\n")
    assert source_hash(["my_transformer.Var"]) != before


@pytest.mark.parametrize("folder", ["off", __file__])
def test_no_certificate_is_written_where_nothing_can_be_kept(folder, monkeypatch, capsys):
    monkeypatch.setenv("MINITRANSFORMER_MINE", folder)
    certificate(assembled()[1], {}, [1.0] * 30, 2.3)
    assert "is not written" in capsys.readouterr().out


def test_figure_1_holds_every_parameter_and_leaves_the_path_alone():
    before = list(sys.path)
    shapes = glue.shapes_of(13, 1, 8, 12)
    n_parameters = sum(int(np.prod(shape)) for shape in shapes.values())
    texts = [text.get_text() for text in draw_own_figure_1(shapes, 1, 2).axes[0].texts]
    assert any(f"{n_parameters:,} parameters" in text for text in texts)
    assert sys.path == before
