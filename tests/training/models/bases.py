"""Small random encoders of each family, saved by transformers with a tokenizer of the family's own kind."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
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

SIZES = {"num_hidden_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
BERT_SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
Texts = list[str]


def wordpiece(texts: Texts) -> Tokenizer:
    """Characters and frequent words. Not trained: a trainer breaks ties by chance."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    normalized = map(tokenizer.normalizer.normalize_str, texts)
    counts = Counter(word for text in normalized for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))
    characters = sorted(set("".join(counts)))
    words = sorted(counts, key=lambda word: (-counts[word], word))
    pieces = dict.fromkeys([*BERT_SPECIALS, *characters, *(f"##{one}" for one in characters), *words])
    tokenizer.model = models.WordPiece(
        {piece: index for index, piece in enumerate(list(pieces)[:600])}, unk_token="[UNK]"
    )
    tokenizer.add_special_tokens(BERT_SPECIALS)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def unigram(texts: Texts) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=600, special_tokens=ROBERTA_SPECIALS, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    state = json.loads(tokenizer.to_str())  # the trainer orders pieces by chance
    specials, pieces = (
        state["model"]["vocab"][: len(ROBERTA_SPECIALS)],
        state["model"]["vocab"][len(ROBERTA_SPECIALS) :],
    )
    state["model"]["vocab"] = specials + sorted(([piece, round(score, 3)] for piece, score in pieces), reverse=True)
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def byte_level_bpe(texts: Texts) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=ROBERTA_SPECIALS, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def save_base(folder: Path, config: PretrainedConfig, tokenizer: Tokenizer, tokenizer_class: Callable) -> Path:
    config.vocab_size = tokenizer.get_vocab_size()
    torch.manual_seed(0)
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer_class(tokenizer_object=tokenizer).save_pretrained(folder)
    return folder


def save_family(name: str, folder: Path, texts: Texts) -> Path:
    """One of FAMILIES, with a vocabulary trained on `texts`."""
    config, make_tokenizer, tokenizer_class = FAMILIES[name]
    return save_base(folder, config(), make_tokenizer(texts), tokenizer_class)


FAMILIES: dict[str, tuple[Callable[[], PretrainedConfig], Callable[[Texts], Tokenizer], Callable]] = {
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
