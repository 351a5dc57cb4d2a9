"""Spelling variants that a new vocabulary merges: optional signs, and several ways to write one sound."""

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
