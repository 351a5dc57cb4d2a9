"""Trains a new vocabulary, BPE over the run's languages, and normalises text for it.

BPE, not Unigram: it keeps frequent words whole, is shorter in most languages and trains faster (docs/experiments).
Words and punctuation are split as in BERT, and each gets the word-start mark. So a word after a quote or a hyphen is
the same piece as elsewhere, and the teacher's piece where the teacher has it.

Invisible characters are removed first: a soft hyphen inside a word would split it. Those that carry meaning stay:
joiners between letters of scripts that use them and between emoji, and tags after a flag.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tokenizers import (  # type: ignore[import-untyped]
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from training.config.run import TokenizerConfig
from training.corpora.corpus import Corpus
from training.corpora.plan import language_shares
from training.errors import ConfigError

_JOINERS = r"[\u200c\u200d]"
_TAGS = r"\x{e0020}-\x{e007f}"
# Scripts in which joiners change letters (RFC 5892, appendix A.1 and A.2), and combining marks.
_JOINED = (
    r"[\p{Arabic}\p{Syriac}\p{Mongolian}\p{Nko}\p{Devanagari}\p{Bengali}\p{Gurmukhi}\p{Gujarati}\p{Oriya}\p{Tamil}"
    r"\p{Telugu}\p{Kannada}\p{Malayalam}\p{Sinhala}\p{M}]"
)
_EMOJI = r"[\p{Extended_Pictographic}\p{Emoji_Modifier}]"

# Removed in this order.
INVISIBLE = (
    # Default-ignorable characters except those below; control characters except white space; U+FFFD, as in BERT.
    rf"(?!{_JOINERS}|[{_TAGS}])\p{{Default_Ignorable_Code_Point}}"
    r"|[\x00-\x08\x0e-\x1f\u007f-\u0084\u0086-\u009f\ufff9-\ufffd]",
    rf"(?<![\x{{1f3f4}}{_TAGS}])[{_TAGS}]+",  # tags, except after a flag (Scotland's)
    rf"{_JOINERS}(?={_JOINERS})",  # all but the last of several
    rf"(?!(?<={_JOINED}){_JOINERS}(?={_JOINED})|(?<={_EMOJI})\u200d(?={_EMOJI})){_JOINERS}",
)


def dropping_invisible() -> list[normalizers.Normalizer]:
    """The normaliser steps that remove invisible characters; they come first."""
    return [normalizers.Replace(Regex(pattern), "") for pattern in INVISIBLE]


def drop_invisible(tokenizer: Tokenizer) -> None:
    """Put these steps in front of a tokenizer's normaliser, and the removal of white space at the ends of a text."""
    own = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
    tokenizer.normalizer = normalizers.Sequence([*dropping_invisible(), normalizers.Strip(), *own])


DEVANAGARI_STOPS = "\u0915-\u0918\u091a-\u091d\u091f-\u0922\u0924-\u0927\u092a-\u092d"  # k to gh, c to jh and so on

# Regular expression -> replacement, applied in this order.
SPELLINGS = {
    r"(?:\u064b\u0627|\u0627\u064b)(?=$|[^\p{Arabic}])": "",  # Arabic indefinite accusative ending: tanwin and alef
    "[\u064b-\u065f\u0670\u0640]": "",  # Arabic vowel signs, tatweel
    "[\u0623\u0625\u0622\u0671]": "\u0627",  # forms of alef
    "\u0649": "\u064a",  # alef maqsura
    r"\u093c|(?<=\p{Devanagari})[\u200c\u200d]": "",  # Devanagari nukta; joiners
    "\u0901": "\u0902",  # candrabindu, as anusvara
    f"[\u0919\u091e\u0923\u0928\u092e]\u094d(?=[{DEVANAGARI_STOPS}])": "\u0902",  # a nasal before a stop, as anusvara
    "\u0964": ".",  # danda
    r"(?<=\p{Cyrillic})\u0301": "",  # stress mark
}


PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORD_START = "▁"
# Written without spaces: a word-start mark on a sentence's first character would only split its statistics.
UNSPACED_SCRIPT = r"\p{Han}\p{Hiragana}\p{Katakana}ー"


def train_tokenizer(corpus: Corpus, config: TokenizerConfig, *, seed: int) -> Tokenizer:
    """A BPE tokenizer of `config.vocab_size` pieces, `[CLS] x [SEP]`, trained on a balanced sample of the corpus."""
    tokenizer = Tokenizer(models.BPE(unk_token=UNK))
    steps: list[normalizers.Normalizer] = [*dropping_invisible(), normalizers.NFKC()]
    if config.lowercase:
        steps += [normalizers.Lowercase(), normalizers.Replace("i\u0307", "i")]  # lower("İ") leaves a combining dot
    steps += [normalizers.Replace(Regex(pattern), spelling) for pattern, spelling in SPELLINGS.items()]
    steps += [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Punctuation(),
            pre_tokenizers.Metaspace(replacement=WORD_START, prepend_scheme="always"),
            pre_tokenizers.Split(Regex(f"{WORD_START}(?=[{UNSPACED_SCRIPT}])"), "removed"),
        ]
    )
    tokenizer.decoder = decoders.Metaspace(replacement=WORD_START)
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        limit_alphabet=config.alphabet,
        max_token_length=16,
        show_progress=False,
    )
    sentences = balanced_sentences(corpus, config, seed=seed)
    tokenizer.train_from_iterator(tqdm(sentences, desc="tokenizer", unit="sentence"), trainer)
    if (size := tokenizer.get_vocab_size()) > config.vocab_size:
        raise ConfigError(
            f"tokenizer.vocab_size is {config.vocab_size}, but the characters alone make {size} pieces: "
            "raise it, or lower tokenizer.alphabet"
        )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B {SEP}",
        special_tokens=[(CLS, tokenizer.token_to_id(CLS)), (SEP, tokenizer.token_to_id(SEP))],
    )
    return tokenizer


def balanced_sentences(corpus: Corpus, config: TokenizerConfig, *, seed: int) -> list[str]:
    """Up to `config.sentences` texts, English included; `config.language_exponent` sets each language's share."""
    generator = np.random.default_rng(seed)
    members = {language: corpus.texts_in(language) for language in ("en", *corpus.languages)}
    shares = language_shares({name: len(index) for name, index in members.items()}, config.language_exponent)
    chosen: list[str] = []
    for name, index in members.items():
        drawn = generator.permutation(index)[: round(config.sentences * shares[name])]
        chosen += (corpus.texts[i] for i in np.sort(drawn))
    return chosen


def wrap_tokenizer(path: Path, *, max_length: int) -> PreTrainedTokenizerFast:
    """The `tokenizer.json` at `path` as a transformers tokenizer."""
    return PreTrainedTokenizerFast(
        tokenizer_file=str(path),
        model_max_length=max_length,
        pad_token=PAD,
        unk_token=UNK,
        cls_token=CLS,
        sep_token=SEP,
        mask_token=MASK,
    )
