import { OpenAIEmbedding } from "@llamaindex/openai";
import { KEY, TEXTS, URL, show } from "./given.mjs";

const embedding = new OpenAIEmbedding({ model: "any", apiKey: KEY, baseURL: `${URL}/v1` });
const alone = [];
for (const text of TEXTS) alone.push(await embedding.getTextEmbedding(text));
show({ alone, batch: await embedding.getTextEmbeddings(TEXTS) });
