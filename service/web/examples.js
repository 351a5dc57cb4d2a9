// Example documents: customers' questions in ten languages.

const QUESTIONS = [
  ["en", "payment", "Can I pay in instalments?"],
  ["de", "account", "Wie kann ich mein Passwort zurücksetzen?"],
  ["es", "opening", "¿Cuándo abre la tienda?"],
  ["fr", "delivery", "Quand mon colis arrivera-t-il ?"],
  ["it", "returns", "Vorrei restituire le scarpe che ho comprato."],
  ["pl", "delivery", "Czy wysyłacie za granicę?"],
  ["tr", "account", "Hesabımı nasıl silebilirim?"],
  ["ar", "delivery", "هل يمكنني تغيير عنوان التسليم؟"],
  ["ja", "returns", "返金にはどのくらい時間がかかりますか。"],
  ["zh", "opening", "你们星期天营业吗？"],
];

/** One document a line. */
export const EXAMPLES = QUESTIONS.map(([lang, topic, text], at) =>
  JSON.stringify({ id: `example/${at + 1}`, text, metadata: { lang, topic } }),
).join("\n");
