"""`crosslet params CONFIG`: counts the parameters of the assistant and the student. Loads no weights."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from transformers import AutoConfig, PretrainedConfig

from training.config.run import RunConfig, load_config
from training.errors import ConfigError
from training.models.encoder import CrossletConfig, CrossletEncoder, ParameterCounts, parameter_counts, shape_of
from training.models.loading import checked_source
from training.models.packages import packaged_folder
from training.models.start import check_shrinkable
from training.system.command import exit_status


def main(arguments: list[str] | None = None) -> int:
    """Print the table. Returns the exit status: 0, 2 after an error, or 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="crosslet params", description="Count the parameters of a configuration's assistant and student."
    )
    parser.add_argument("config", type=Path, help="YAML configuration, e.g. training/configs/default.yaml")
    parser.add_argument("--base", help="folder or hub name of the base encoder; default: the configured one")
    options = parser.parse_args(arguments)
    return exit_status(lambda: print_sizes(options.config, options.base))


def print_sizes(path: Path, base: str | None) -> None:
    """Print the table of a configuration, with another base if one is given."""
    config = load_config(path)
    shape = base_shape(base or config.base or config.teacher, trust_remote_code=config.trust_remote_code)
    print(table(sizes(config, shape)))


def base_shape(name: str, *, trust_remote_code: bool = False) -> PretrainedConfig:
    """Read the configuration of an encoder from a folder, an installed package or the hub. Loads no weights.

    Raises: ConfigError: none of the three has it.  LoadError: its class is defined only by code in its own folder.
    """
    path, revision = str(packaged_folder(name) or name), None
    try:
        if not trust_remote_code:
            path, revision = checked_source(path)
        return AutoConfig.from_pretrained(path, revision=revision, trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as exc:
        raise ConfigError(f"base {name!r} is neither a folder nor a model the hub could provide: {exc}") from exc


def sizes(config: RunConfig, base: PretrainedConfig) -> dict[str, ParameterCounts]:
    """Parameters of the assistant and of the student; a pruned vocabulary counts at its maximum size."""
    check_shrinkable(base, config)
    vocab_size = {
        "new": config.tokenizer.vocab_size,
        "pruned": min(config.tokenizer.vocab_size, base.vocab_size),
        "kept": base.vocab_size,
    }[config.tokenizer.kind]
    shapes = {
        "assistant": CrossletConfig(base=shape_of(base, vocab_size=vocab_size)),
        "student": CrossletConfig(
            base=shape_of(base, vocab_size=vocab_size, num_hidden_layers=config.student.unit_layers),
            bottleneck_size=config.student.bottleneck_size,
            recurrences=config.student.recurrences,
        ),
    }
    with torch.device("meta"):
        return {name: parameter_counts(CrossletEncoder(shape)) for name, shape in shapes.items()}


def table(counts: dict[str, ParameterCounts]) -> str:
    """One line a model, in millions: embedding and encoder as in the paper, then words and positions."""
    lines = [f"{'millions':<10} {'embedding':>10} {'encoder':>8} {'sum':>8}   words + positions"]
    for name, count in counts.items():
        numbers = (count.embedding, count.layers, count.embedding + count.layers, count.words, count.positions)
        embedding, encoder, total, words, positions = (f"{number / 1e6:.2f}" for number in numbers)
        lines.append(f"{name:<10} {embedding:>10} {encoder:>8} {total:>8}   {words} + {positions}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
