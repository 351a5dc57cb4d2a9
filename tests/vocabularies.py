"""Builds small tokenizers of each kind, the same in every process, so that what is made with them is the same too."""

import math
from collections import Counter
from collections.abc import Iterable

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

BERT_SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
Texts = Iterable[str]


def wordpiece(texts: Texts, normalizer: normalizers.Normalizer | None = None) -> Tokenizer:
    """Characters and frequent words; BERT's normaliser where no other is given.

    Not trained: the trainer numbers characters inside words by chance, and breaks ties by number.
    """
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizer or normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words = _counted_words(map(tokenizer.normalizer.normalize_str, texts), tokenizer)
    characters = sorted(set("".join(words)))
    pieces = dict.fromkeys([*BERT_SPECIALS, *characters, *(f"##{one}" for one in characters), *words])
    vocabulary = {piece: index for index, piece in enumerate(list(pieces)[:600])}
    tokenizer.model = models.WordPiece(vocabulary, unk_token="[UNK]")
    tokenizer.add_special_tokens(BERT_SPECIALS)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def unigram(texts: Texts) -> Tokenizer:
    """Characters and frequent words, as likely as they are frequent.

    Not trained: the trainer sums in the order of a hash, so that scores and pieces differ by chance.
    """
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    words = _counted_words(texts, tokenizer)
    counts = Counter(dict.fromkeys(sorted(set("".join(words))), 0))
    for word, count in words.items():
        for piece in (*word, word):
            counts[piece] += count
    total = counts.total()
    vocabulary = [(special, 0.0) for special in ROBERTA_SPECIALS]
    vocabulary += [(piece, math.log(count / total)) for piece, count in list(counts.items())[:600]]
    tokenizer.model = models.Unigram(vocabulary, unk_id=ROBERTA_SPECIALS.index("<unk>"))
    tokenizer.add_special_tokens(ROBERTA_SPECIALS)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def _counted_words(texts: Texts, tokenizer: Tokenizer) -> dict[str, int]:
    """The words that its pre-tokenizer finds, the most frequent first; of equals, by the alphabet."""
    counts = Counter(word for text in texts for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


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


def bpe(texts: Texts) -> Tokenizer:
    """At most 60 pieces, `[CLS] x [SEP]`."""
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=BERT_SPECIALS, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer
