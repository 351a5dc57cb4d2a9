import { Ollama } from "ollama";
import { KEY, TEXTS, URL, show } from "./given.mjs";

const client = new Ollama({ host: URL, headers: { authorization: `Bearer ${KEY}` } });
const { models } = await client.list();
const embedded = await client.embed({ model: models[0].model, input: TEXTS });
const older = [];
for (const prompt of TEXTS) older.push((await client.embeddings({ model: models[0].model, prompt })).embedding);
show({ embed: embedded.embeddings, embeddings: older });
