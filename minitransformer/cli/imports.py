"""``import``: a model of another project as a checkpoint; ``export``: a checkpoint as other projects read it."""

import argparse
import json
import zipfile
from dataclasses import fields
from pathlib import Path

from minitransformer.cli.common import report, writable_file
from minitransformer.cli.options import add_output_option, at_least_one
from minitransformer.errors import ConfigError

IMPORTED = """\
SOURCE is the .npz of a Marian model (OPUS-MT) with its vocabulary beside it, a folder of Hugging Face's MarianMT with
model.safetensors, or the state dict of PyTorch's nn.Transformer (.safetensors, .npz). Nothing in it is executed. The
result is an ordinary checkpoint: translate, evaluate, plot and training.init_from accept it."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("import", help="read a model of another project", description=IMPORTED)
    parser.add_argument("source", type=Path, metavar="SOURCE", help="file or folder")
    add_output_option(parser, "checkpoint to write")
    torch = parser.add_argument_group(
        "options that a state dict of PyTorch does not record", "epsilon is not recorded either and becomes 1e-5"
    )
    torch.add_argument("--heads", type=at_least_one, metavar="H", help="attention heads; must be given")
    torch.add_argument("--norm", choices=("post", "pre"), help="norm_first=True is pre (default: post)")
    torch.add_argument("--activation", choices=("relu", "gelu"), help="inside the feed-forward layers (default: relu)")
    torch.add_argument("--tokenizer", metavar="FILE", help="made by bpe train (default: a model of ids only)")
    parser.set_defaults(run=run_import)

    parser = commands.add_parser("export", help="write a model as other projects read it")
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="file to read")
    shown = "Hugging Face's MarianMT, or PyTorch"
    parser.add_argument("--to", choices=("marian", "pytorch"), required=True, help=shown)
    add_output_option(parser, "folder for marian, which gets no vocabulary; .safetensors file for pytorch", "PATH")
    parser.set_defaults(run=run_export)


def run_import(arguments: argparse.Namespace) -> None:
    source, output = arguments.source, writable_file(arguments.output, [arguments.source])
    names = {"n_heads": arguments.heads, "norm": arguments.norm, "activation": arguments.activation}
    names |= {"tokenizer": arguments.tokenizer}
    options = {name: value for name, value in names.items() if value is not None}
    if not (source.is_dir() or source.is_file()):
        got = f"the device or pipe {source}" if source.exists() else f"{source}, which does not exist"
        raise ConfigError(f"import: SOURCE must be a folder or an ordinary file, got {got}")
    if source.is_dir():
        from minitransformer.interop.huggingface import read_folder

        checkpoint = read_folder(source)
    elif source.suffix == ".npz" and _is_marian(source):
        from minitransformer.interop.marian import read_npz

        checkpoint = read_npz(source)
    else:
        from minitransformer.interop.pytorch import read_state_dict
        from minitransformer.training.corpus import load_tokenizer

        if source.suffix not in (".npz", ".safetensors"):
            raise ConfigError(f"import: SOURCE must be a folder, an .npz or a .safetensors file, got {source}")
        if "n_heads" not in options:
            raise ConfigError("--heads must be given for a state dict of PyTorch, whose tensors do not say it")
        if "tokenizer" in options:
            options["tokenizer"] = load_tokenizer(arguments.tokenizer)
        checkpoint, options = read_state_dict(source, **options), {}
    if options:
        raise ConfigError(
            f"--heads, --norm, --activation and --tokenizer must be left out for {source}, which says them itself"
        )
    checkpoint.build()  # which checks that vocabulary and model fit
    checkpoint.save(output)
    what = "with its vocabulary" if checkpoint.tokenizer_text else "of token ids only: no vocabulary was found"
    model = checkpoint.config.model
    report(f"{output}: {model.n_layers} layers, d_model {model.d_model}, {what}")
    changed = {each.name: getattr(model, each.name) for each in fields(model)}
    changed = {name: value for name, value in changed.items() if value != getattr(type(model)(), name)}
    print("[model]  # for training that starts from it (training.init_from)")
    print("\n".join(f"{name} = {json.dumps(value)}" for name, value in changed.items() if "vocab_size" not in name))


def _is_marian(path: Path) -> bool:
    """Whether it has Marian's settings; True also if it is not an archive, which `read_npz` reports."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "special:model.yml.npy" in archive.namelist()
    except Exception:  # damaged bytes make zipfile raise nearly anything
        return True


def run_export(arguments: argparse.Namespace) -> None:
    from minitransformer.checkpoints import load_checkpoint

    checkpoint = load_checkpoint(arguments.checkpoint, with_optimizer=False)
    if arguments.to == "marian":
        from minitransformer.interop.huggingface import write_folder

        note = write_folder(checkpoint, arguments.output)
    else:
        from minitransformer.interop.pytorch import write_state_dict

        if arguments.output.suffix != ".safetensors":
            raise ConfigError(f"export: PATH must end in .safetensors for pytorch, got {arguments.output}")
        note = write_state_dict(checkpoint, writable_file(arguments.output, [arguments.checkpoint]))
    report(f"{arguments.output}: {note}" if note else str(arguments.output))
