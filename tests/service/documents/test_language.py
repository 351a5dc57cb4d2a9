import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.documents.language import LATIN, language_of, preference
from tests.contract.filter_oracle import matches

QUESTIONS = {
    "ar": "كيف أعيد تعيين كلمة المرور؟",
    "cs": "Jak si mohu obnovit heslo?",
    "de": "Wie kann ich mein Passwort zurücksetzen?",
    "en": "How do I reset my password?",
    "es": "¿Cómo puedo restablecer mi contraseña?",
    "fr": "Comment réinitialiser mon mot de passe ?",
    "hi": "मैं अपना पासवर्ड कैसे बदलूँ?",
    "id": "Bagaimana cara mengatur ulang kata sandi saya?",
    "it": "Come posso reimpostare la mia password?",
    "ja": "パスワードを再設定するには?",
    "ko": "비밀번호를 어떻게 재설정하나요?",
    "nl": "Hoe kan ik mijn wachtwoord opnieuw instellen?",
    "pl": "Jak mogę zresetować moje hasło?",
    "pt": "Como posso redefinir a minha senha?",
    "ru": "Как мне сбросить пароль?",
    "tr": "Şifremi nasıl sıfırlayabilirim?",
    "vi": "Làm thế nào để đặt lại mật khẩu?",
    "zh": "如何重置我的密码？",
    "zh_Hant": "如何重設我的密碼？",
}


@pytest.mark.parametrize("language", QUESTIONS)
def test_a_question_in_each_language_is_told(language: str) -> None:
    assert language_of(QUESTIONS[language]) == language
    assert language_of(QUESTIONS[language].upper()) == language


@pytest.mark.parametrize(
    ("text", "language"), [("返品方法は", "ja"), ("ｷｬﾝｾﾙ", "ja"), ("退货政策", "zh"), ("學生優惠", "zh_Hant")]
)
def test_few_characters_may_tell_a_language(text: str, language: str) -> None:
    assert language_of(text) == language


OTHER_LANGUAGES = ["پسورد را چگونه عوض کنم؟", "Як скинути пароль і їх?"]
KANJI_ALONE = ["営業時間", "返品方法", "料金", "注文取消", "送料無料", "東京駅", "時々", "iPhone 充電"]


@pytest.mark.parametrize("text", ["", "4711", "WK-1702", "?!", "🙂", *OTHER_LANGUAGES, *KANJI_ALONE])
def test_unsure_is_no_language(text: str) -> None:
    assert language_of(text) is None


def test_a_foreign_name_changes_nothing() -> None:
    assert language_of("iPhone 15 Pro Max の充電方法") == "ja"
    assert language_of("Wie komme ich vom Flughafen nach 東京?") == "de"


@pytest.mark.parametrize(
    ("codes", "documents", "others"),
    [
        ({"pt", "PT", "pt-BR", "pt_PT"}, {"pt", "pt-BR", "pt_BR", "pt-br"}, {"en", "p", "ptx", "es-PT"}),
        ({"zh", "ZH", "zh-CN", "zh_Hans"}, {"zh", "zh-CN", "zh_cn", "zh-Hans-SG", "zh-hans"}, {"zh-TW", "zh_Hant"}),
        ({"zh_Hant", "zh-tw", "zh-Hant-HK"}, {"zh", "zh-TW", "zh_Hant_HK", "zh-hk"}, {"zh-CN", "zh_Hans"}),
    ],
)
def test_a_language_has_codes_with_regions(codes: set[str], documents: set[str], others: set[str]) -> None:
    for code in codes:
        wanted = preference(code).filter_
        assert {code for code in documents | others if matches(wanted, {"lang": code})} == documents


@given(st.text())
def test_any_text_has_a_known_language_or_none(text: str) -> None:
    assert language_of(text) in {*QUESTIONS, None}
    assert {*LATIN} < {*QUESTIONS}
