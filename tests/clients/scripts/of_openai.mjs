import OpenAI from "openai";
import { KEY, TEXTS, URL, show } from "./given.mjs";

const client = new OpenAI({ baseURL: `${URL}/v1`, apiKey: KEY });
const several = await client.embeddings.create({ model: "any", input: TEXTS });
const floats = await client.embeddings.create({ model: "any", input: TEXTS, encoding_format: "float" });
show({ several: several.data.map((item) => item.embedding), floats: floats.data.map((item) => item.embedding) });
