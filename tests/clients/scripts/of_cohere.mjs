import { CohereClientV2 } from "cohere-ai";
import { KEY, QUERY, TEXTS, URL, show } from "./given.mjs";

const client = new CohereClientV2({ token: KEY, environment: URL });
const asked = { model: "any", inputType: "search_document", embeddingTypes: ["float"] };
const embedded = await client.embed({ texts: TEXTS, ...asked });
const ranked = await client.rerank({ model: "any", query: QUERY, documents: TEXTS });
show(
  { v2: embedded.embeddings.float },
  { v2: ranked.results.map((hit) => [hit.index, hit.relevanceScore]) },
);
