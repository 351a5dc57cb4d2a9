"""Small random encoders of each family, saved by transformers with a tokenizer of the family's own kind."""

from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import (
    AutoModel,
    BertConfig,
    BertTokenizerFast,
    DistilBertConfig,
    DistilBertTokenizerFast,
    PretrainedConfig,
    RobertaConfig,
    RobertaTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaTokenizerFast,
)

from tests.vocabularies import byte_level_bpe, unigram, wordpiece

SIZES = {"num_hidden_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}


def save_base(folder: Path, config: PretrainedConfig, tokenizer: Tokenizer, tokenizer_class: Callable) -> Path:
    config.vocab_size = tokenizer.get_vocab_size()
    torch.manual_seed(0)
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer_class(tokenizer_object=tokenizer).save_pretrained(folder)
    return folder


def save_family(name: str, folder: Path, texts: list[str]) -> Path:
    """One of FAMILIES, with a vocabulary trained on `texts`."""
    config, make_tokenizer, tokenizer_class = FAMILIES[name]
    return save_base(folder, config(), make_tokenizer(texts), tokenizer_class)


FAMILIES: dict[str, tuple[Callable[[], PretrainedConfig], Callable[[list[str]], Tokenizer], Callable]] = {
    "bert": (lambda: BertConfig(**SIZES), wordpiece, BertTokenizerFast),
    "distilbert": (
        lambda: DistilBertConfig(n_layers=4, dim=32, n_heads=4, hidden_dim=64), wordpiece, DistilBertTokenizerFast
    ),
    "roberta": (lambda: RobertaConfig(max_position_embeddings=130, **SIZES), byte_level_bpe, RobertaTokenizerFast),
    "xlm-roberta": (
        lambda: XLMRobertaConfig(max_position_embeddings=130, **SIZES), unigram, XLMRobertaTokenizerFast
    ),
    # MiniLM: a BERT body under XLM-R's tokenizer, whose padding is 1 where the body's configuration says 0
    "minilm": (lambda: BertConfig(**SIZES), unigram, XLMRobertaTokenizerFast),
}  # fmt: skip
