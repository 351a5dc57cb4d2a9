// What a client is asked to do, from the test's environment, and how it answers: a line of JSON.
export const URL = process.env.SERVICE_URL;
export const KEY = process.env.SERVICE_KEY;
export const TEXTS = JSON.parse(process.env.TEXTS);
export const QUERY = process.env.QUERY;
export const show = (vectors, rankings = {}) => console.log(JSON.stringify({ vectors, rankings }));
