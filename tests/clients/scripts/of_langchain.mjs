import { OpenAIEmbeddings } from "@langchain/openai";
import { KEY, TEXTS, URL, show } from "./given.mjs";

const embeddings = new OpenAIEmbeddings({ model: "any", apiKey: KEY, configuration: { baseURL: `${URL}/v1` } });
const queries = [];
for (const text of TEXTS) queries.push(await embeddings.embedQuery(text));
show({ documents: await embeddings.embedDocuments(TEXTS), queries });
