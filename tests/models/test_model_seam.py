"""Training, checkpoints, planning and generation know a model only by its seam: any kind of model goes through them."""

import ast
from pathlib import Path

import numpy as np
import pytest
from systems import python
from tiny_run import checkpoint_of, tiny_config

import minitransformer
from minitransformer.autograd import functions, no_grad
from minitransformer.checkpoints import load_model
from minitransformer.config import BOS, ModelConfig
from minitransformer.errors import CheckpointError, ConfigError
from minitransformer.generation import beam_search, greedy_search
from minitransformer.generation.decoding import output_limits
from minitransformer.kernels.precision import current
from minitransformer.models import LanguageModel, Model, Workload, build_model, register_model
from minitransformer.nn import KeyValueCache
from minitransformer.nn.module import Parameter
from minitransformer.planning import batch_flops, parameter_count, plan_memory
from minitransformer.text import pad_batch
from minitransformer.training import Corpus, Trainer

PACKAGE = Path(minitransformer.__file__).parent
OUTSIDE_THE_SEAM = [PACKAGE / folder for folder in ("training", "checkpoints", "generation", "planning")]
SHAPE = dict(vocab_size=11, n_layers=2, d_model=8, d_ff=16, n_heads=2, p_drop=0.0)


class Bigram(Model):
    """The toy kind: P(y_t | y_{t-1}) = softmax(E[y_{t-1}] U^T). It has neither layers nor keys nor positions."""

    is_decoder_only = True

    def build(self, config, init):
        self.embedding = Parameter(init.normal(config.vocab_size, config.d_model))
        self.output = Parameter(init.normal(config.vocab_size, config.d_model))

    def loss(self, batch, dropout=None):
        with self.autocast():
            hidden = functions.embedding(self.embedding, ids=self.check_ids(batch.tgt_in, "tgt_in"))
            return self.token_loss(hidden, self.output, batch.tgt_out)

    def start(self, src_ids, max_length):
        return KeyValueCache(self.xp, np.full(len(src_ids), BOS), max_length)

    def decode_step(self, last_ids, cache):
        cache.extend()
        with no_grad(), self.float32_activations():
            return self.embedding.data[last_ids] @ self.output.data.T

    @classmethod
    def workload(cls, config, src_length, tgt_length):
        return Workload((), (), outputs=tgt_length)


register_model("bigram", Bigram)


def bigram_config(directory, updates: int):
    return tiny_config(directory, model={"kind": "bigram"}, updates=updates, save_every=3, log_every=1)


def cycles() -> Corpus:
    """Sequences in which each id is followed by the next one: a bigram is all there is to learn."""
    rng = np.random.default_rng(0)
    starts, lengths = rng.integers(4, 12, 80), rng.integers(2, 8, 80)
    sequences = [list(range(a, a + m)) for a, m in zip(starts.tolist(), lengths.tolist(), strict=True)]
    return Corpus.one_sided(sequences[10:], sequences[:10])


def identifiers(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        found |= {
            getattr(node, name) for name in ("id", "attr", "arg", "name") if isinstance(getattr(node, name, 0), str)
        }
    return found


@pytest.mark.parametrize("folder", OUTSIDE_THE_SEAM, ids=lambda folder: folder.name)
def test_no_folder_above_the_models_names_a_model_or_its_parts(folder):
    for path in folder.glob("*.py"):
        inner = {name for name in identifiers(path) if "Transformer" in name and "MiniTransformer" not in name}
        assert not inner | {name for name in identifiers(path) if "encoder" in name.lower()}, path
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "kind"], path


def test_an_unknown_kind_is_refused_and_never_imported(tmp_path):
    with pytest.raises(ConfigError, match="model.kind must be one of transformer, .*recurrent.*got 'os.system'"):
        build_model(ModelConfig(kind="os.system", **SHAPE))
    Trainer(bigram_config(tmp_path, 3), cycles(), progress=False).run()
    path = checkpoint_of(tmp_path, 3)
    program = f"from minitransformer.checkpoints import load_model; load_model({str(path)!r})"
    done = python("-c", program)
    assert "model.kind must be one of transformer, language_model, recurrent, imported, got 'bigram'" in done.stderr


def test_a_kind_is_registered_once_and_may_be_repeated():
    register_model("bigram", Bigram)
    for kind in ("transformer", "bigram"):
        with pytest.raises(ConfigError, match=f"register_model: the kind must be a new one, got '{kind}'"):
            register_model(kind, LanguageModel)


@pytest.mark.parametrize(("positions", "limits"), [("learned", [8, 8]), ("sinusoidal", [55, 51])])
def test_a_source_takes_no_position_of_the_output_and_sinusoids_never_end(positions, limits):
    config = ModelConfig(
        **SHAPE, positions="".join([*positions]), max_positions=8
    )  # a string of its own, as from a file
    sources = pad_batch([[5, 6, 7, 8, 9], [5]], [[], []]).src
    with np.errstate(divide="raise"):
        assert output_limits(build_model(config), sources, max_extra=50).tolist() == limits


def test_a_toy_kind_trains_and_its_beam_follows_the_bigrams(tmp_path):
    Trainer(bigram_config(tmp_path, 60), cycles(), progress=False).run()
    model, _ = load_model(checkpoint_of(tmp_path, 60))
    assert isinstance(model, Bigram) and parameter_count(model.config) == 2 * 20 * 16
    logits = model.embedding.data @ model.output.data.T
    assert [int(np.argmax(logits[a, 4:])) + 4 for a in range(5, 11)] == list(range(6, 12))
    sources = np.array([[5, 2], [6, 2]])
    greedy = greedy_search(model, sources, max_extra=4)
    narrow, wide = (beam_search(model, sources, beam_size=size, max_extra=4, alpha=0.0) for size in (1, 4))
    assert [each.ids for each in greedy] == [best.ids for best, *_ in narrow]
    assert all(best.log_prob >= each.log_prob for (best, *_), each in zip(wide, greedy, strict=True))
    shape = (4, 1, 6)
    assert batch_flops(model.config, *shape) == 3 * 2 * 4 * 6 * 16 * 20
    assert plan_memory(model.config, *shape).parameters == 4 * parameter_count(model.config)


def test_a_checkpoint_of_another_kind_is_not_resumed(tmp_path):
    Trainer(bigram_config(tmp_path, 3), cycles(), progress=False).run()
    other = tiny_config(tmp_path, model={"kind": "language_model"}, updates=6, save_every=3, log_every=1)
    with pytest.raises(CheckpointError, match="model.kind must be 'bigram' to resume"):
        Trainer(other, cycles(), progress=False)


def test_a_kind_of_model_must_define_the_whole_seam():
    seam = {"build", "loss", "start", "decode_step", "workload"}
    assert Model.__abstractmethods__ == seam and Bigram(ModelConfig(**SHAPE)).max_positions is None
    with pytest.raises(TypeError, match="abstract"):
        type("Half", (Model,), {name: None for name in seam - {"workload"}})(ModelConfig(**SHAPE))


@pytest.mark.parametrize(("precision", "expected"), [("float32", "float32"), ("bfloat16", "tf32"), ("tf32", "tf32")])
def test_generation_never_stores_activations_in_half_precision(precision, expected):
    model = build_model(ModelConfig(**SHAPE))
    model.precision = "".join([*precision])  # a string of its own, as from a file
    with model.float32_activations():
        assert current.get().precision == expected
