"""What some scripts write together, and what they spell in more ways than one. Regular expressions; no vocabulary.

A piece is learnt from the sentences that hold it. Where a language has few, a noun should not be one piece bare,
another with its article and a third in the plural: what is written onto words is cut off, and spellings are folded. By
script, for a text does not say its language. What it is worth: docs/experiments.

A cut costs tokens: these are of the scripts in which it bought more than it cost.
"""

from __future__ import annotations

_ARABIC_START = r"(?:^|(?<=[^\p{Arabic}\s])|\s)"  # of a word, or what an earlier cut has left of one

# Words that begin with a letter that is otherwise "and", written onto the next word: what follows it in these. From a
# list of the parallel text's words whose rest is rarer than they are, completed by hand. What is cut by mistake is a
# word in two parts, always the same.
_BEGIN_WITH_WAW = (
    "اجب|اجه|ارد|اسع|اشنط|اصف|اصل|اضح|افد|افق|اقف|اقع|اقي|باء|بائ|تير|ثائ|ثق|ثوق|ثيق|جب|جد(?!ي)|جه|جود|جوه|جيز|حد(?!ي)"
    "|حش|حوش|حيد|خيم|داع|دود|راء|رائ|راث|رث|رد|رق|رود|ريد|زار|زراء|زن|زير|سائ|ساد|سط|سع|سوم|سيط|سيل|سيم|شاح|صف|صل|صول|ضح|ضع|ضوح"
    "|ضيع|طن|طيد|ظائف|ظف|ظيف|عاء|عدت|عدك|عود|فاء|فات|فاة|فد|فر|فق|فير(?!وس)|قائ|قاي|قت|قع|قف|قود|قوع|قوف|كال|كلاء|كيل|لائ|لاء|لاد"
    "|لاي|لد"
)

# The same for "with" and "to", which have many more such words: of those that the text has more than once.
_BEGIN_WITH_BA = (
    "ا[ءئا]|ابا|ابل|احث|ادئ|ادل|اراس|ارح|ارد|ارز|ارع|ارك|اري|اسك|اشر|اطل(?!اق)|اطن|اطؤ|اقي|اقة|اكر|اكست|الغ|الك|اند"
    "|اني|انكو|اهت(?!م)|اهظ|ايت|ايز|تيد|ثور|حث|حار|حير|حوث|حري|خار|خيل|داء|داي|دات|داوا|دلا|دلة|دلت|ديل|ديه|دين|ديع"
    "|ذلت|ذور|ذير|ر(?!جل|غم|قم|ئيس|سال|سم|بط|فق|وح|وا|اس|اح|اي|اق|حل|عا|عب|فع|فاه|شف|غب|ؤي|جاء|كوب|يتشارد)|ستان|ستن"
    "|سيط|سكو|سمة|سمت|شرة|شري|شرت|صري|صير|صمة|صمات|ضا|طا(?!ئر|قم|لب)|طل(?!ب|اق)|طولة|طولي|طولات|طن|طيء|طيئ|طيخ|طرس"
    "|عثت|عدما|عدك|عده|عض|عيد|عير|عوض|غداد|غال|غيض|قا(?!ئد|ئم|عد|در|نون|لب)|قي(?!اد|اس|ام|م|ود)|قر(?!ار|ب|اء)|قع"
    "|كاء|كتير|كين|كيت|كير|لا(?!عب|حق|شك)|لد|لغ(?!ة|ت)|لج|لو(?!ن|ح)|لي(?!ل)|لطج|لعوم|نا|نت(?!ائ|ي)|ند(?!م)|نط(?!اق)"
    "|نغ|نفسج|نو(?!ع|ر)|ني(?!ل|وي)|نك|نزين|هائ|هجة|واب|ودك|وكي|وكر|ول(?!د)|ون|وم|ور(?!ق|ش)|وب|وت|وست|وسطن|وصل|وغ|وه"
    "|ويض|وين|ي(?!وم)"
)
_BEGIN_WITH_LAM = (
    "[ؤئ]|اتين|ائح|ائق|احظ|احق|ازم|ازل|اعب|اعق|افت|افند|اقي|امع|اجئ|باس|بست|بث|بنة|بنان|جنة|جوء|حظ|حم(?!اي|ل|ض)"
    "|حوم|حقت|حن|دي|ذيذ|ست|سنا|صوص|طف(?!ل|و)|طيف|طخ|عب(?!ا[در]|ور)|غا(?!ل|ي)|غت|غو|غز|فت(?!ر|ح)|فظ|فائف|فاف|فز"
    "|قاء|قائ|قاح|قيت|قيح|قطة|كن|كمة|كمت|محة|مسة|معان|ندن|هجة|وح(?!د)|وائح|ون|وغ|وم|ور(?!د)|وي|وك|ولا|وف|يست|يسو"
    "|يلة|يلت|يال|يبيا|يمون|ينكول|يتوان|يون"
)

# Cut first, one after the other, so that endings are found in what is left: "and"; the article and the particles before
# it, or "with" and "to" on a word without it; the prefixes that make a verb's "he" and "she", whose rest the two share.
BEGINNINGS = [
    _ARABIC_START + rf"و(?!ال|{_BEGIN_WITH_WAW})(?=\p{{Arabic}}{{3}})",
    _ARABIC_START + rf"(?:[وف]?(?:[بك]?ال|لل)|ب(?!{_BEGIN_WITH_BA})|ل(?!{_BEGIN_WITH_LAM}))(?=\p{{Arabic}}{{3}})",
    _ARABIC_START + r"[يت](?=\p{Arabic}{3})",
]

# Each match becomes a word of its own, and so does what is left on its either side.
JOINED = [
    # Arabic: endings of gender, number and possession.
    r"(?<=\p{Arabic}{3})(?:تان|تين|هما|ها|هم|هن|نا|كم|ات|ون|ين|ان|يه|ية|ه|ة|ي)(?=$|[^\p{Arabic}])",
    # Hindi: endings of number, gender and case, of nouns, adjectives and participles; not of words as short as "of".
    r"(?<=\p{Devanagari}{3})(?:ियों|ियां|ओं|एं|ों|ें|ां|ा|े|ी)(?=$|[^\p{Devanagari}])",
    # Russian: endings of case, gender and number, and of verbs that look like them.
    r"(?<=\p{Cyrillic}{3})(?:ями|ами|ого|его|ому|ему|ыми|ими|ых|их|ов|ев|ах|ях|ой|ей|ый|ий|ая|яя|ое|ее|ые|ие"
    r"|ам|ям|ом|ем|ую|юю|[аяоеыиуюь])(?=$|[^\p{Cyrillic}])",
    # Korean: the particles after a noun.
    r"(?<=\p{Hangul}{2})(?:은|는|이|가|을|를|의|에|에서|에게|으로|로|와|과|도|들|들이|들은|들을|들의)(?=$|[^\p{Hangul}])",
    # Japanese: loanwords are in katakana, particles and endings in hiragana; a change of script ends a word.
    r"\p{Katakana}[\p{Katakana}ー]*",
    r"\p{Hiragana}[\p{Hiragana}ー]*",
]

DEVANAGARI_STOPS = "\u0915-\u0918\u091a-\u091d\u091f-\u0922\u0924-\u0927\u092a-\u092d"  # k to gh, c to jh, ..

# What is written in place of each match, in this order.
SPELLINGS = {
    r"(?:\u064b\u0627|\u0627\u064b)(?=$|[^\p{Arabic}])": "",  # Arabic's ending of an indefinite object: sign and alef
    "[\u064b-\u065f\u0670\u0640]": "",  # Arabic vowel signs, tatweel
    "[\u0623\u0625\u0622\u0671]": "\u0627",  # forms of alef
    "\u0649": "\u064a",  # alef maqsura
    r"\u093c|(?<=\p{Devanagari})[\u200c\u200d]": "",  # the dot of Devanagari's borrowed sounds; joiners
    "\u0901": "\u0902",  # candrabindu, as anusvara
    f"[\u0919\u091e\u0923\u0928\u092e]\u094d(?=[{DEVANAGARI_STOPS}])": "\u0902",  # a nasal before a stop, as anusvara
    "\u0964": ".",  # danda
    r"(?<=\p{Cyrillic})\u0301": "",  # the stress mark of dictionaries
}
