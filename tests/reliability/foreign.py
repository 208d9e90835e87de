"""The reader of other projects' weights, for the fuzzer."""

import json
from pathlib import Path
from random import Random

import numpy as np

from minitransformer.checkpoints import Checkpoint
from minitransformer.config import Config, ModelConfig
from minitransformer.interop.huggingface import read_folder, write_folder
from minitransformer.interop.marian import read_npz, read_vocabulary
from minitransformer.interop.pytorch import read_state_dict, write_state_dict
from minitransformer.interop.safetensors import read_safetensors
from minitransformer.models import build_model

from .damage import altered, damaged, damaged_text
from .sandbox import Reader

MARIAN = b"""dim-emb: 8
dec-depth: 1
enc-depth: 1
transformer-dim-ffn: 8
transformer-heads: 2
transformer-postprocess: dan
type: transformer
"""
VOCABULARY = '"</s>": 0\n<unk>: 1\n\u2581a: 2\n\'#\': 3\n? "\\x85"\n: 4\n'


class ForeignWeights(Reader):
    """An accepted model gives finite or infinite logits of the right shape; an accepted vocabulary has its pieces."""

    name = "foreign"

    def __init__(self, folder: Path):
        super().__init__(folder)
        config = ModelConfig(vocab_size=9, n_layers=1, d_model=8, n_heads=2, d_ff=8)
        model = build_model(config, seed=1)
        checkpoint = Checkpoint(0, Config(model=config), model.parameters.table, model.parameters.data)
        write_folder(checkpoint, folder / "marian")
        write_state_dict(checkpoint, folder / "model.safetensors")
        np.savez(folder / "model.npz", **read_safetensors(folder / "model.safetensors"))
        np.savez(
            folder / "settings.npz", **{"special:model.yml": np.frombuffer(MARIAN, np.int8), "Wemb": np.ones((5, 8))}
        )
        names = ("marian/config.json", "marian/model.safetensors", "model.safetensors", "model.npz", "settings.npz")
        self.valid = {name: (folder / name).read_bytes() for name in names} | {"vocab.yml": VOCABULARY.encode()}

    def write(self, rng: Random, folder: Path) -> None:
        (folder / "marian").mkdir()
        name = rng.choice(list(self.valid))
        for other in [name] if not name.startswith("marian/") else ["marian/config.json", "marian/model.safetensors"]:
            data = self.valid[other]
            if other == name and rng.random() < 0.95:
                if name.endswith(".json"):
                    data = rng.choice((json.dumps(altered(rng, json.loads(data))).encode(), damaged_text(rng, data)))
                else:
                    data = damaged(rng, data, self.valid[rng.choice(list(self.valid))])
            (folder / other).write_bytes(data)

    def read(self, folder: Path) -> None:
        if (folder / "vocab.yml").exists():
            assert all(isinstance(piece, str) for piece in read_vocabulary(folder / "vocab.yml"))
            return
        if (folder / "marian" / "config.json").exists():
            checkpoint = read_folder(folder / "marian")
        elif (folder / "settings.npz").exists():
            checkpoint = read_npz(folder / "settings.npz")
        else:
            (path,) = folder.glob("model.*")
            checkpoint = read_state_dict(path, None, n_heads=2)
        model, _ = checkpoint.build()
        with np.errstate(all="ignore"):
            logits = model(np.array([[4, 2]]), np.array([[1]]))
        assert logits.shape == (1, 1, model.config.vocab_size)
