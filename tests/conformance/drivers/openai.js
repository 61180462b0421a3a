// npm `openai`.
import { APIError, OpenAI } from "../../clients/published.js";
import { broke, nothing } from "../record.js";

const client = (url) => new OpenAI({ apiKey: "x", baseURL: `${url}/v1`, maxRetries: 0 });
const question = (prompt) => ({ model: "ragwire", messages: [{ role: "user", content: prompt }] });

/** Records the trailer of a turn, which is in the last chunk or in the completion. */
function ended(seen, { status = "completed", citations }) {
  seen.outcome = status;
  seen.citations = citations.length;
}

function raised(seen, error) {
  if (!(error instanceof APIError) || !error.code) return broke(seen, error);
  const reported = { code: error.code, message: error.error.message };
  return Object.assign(seen, { error: reported, status: error.status ?? null, outcome: error.status ? "http-error" : "failed" });
}

export async function stream(url, prompt) {
  const seen = nothing();
  try {
    for await (const chunk of await client(url).chat.completions.create({ ...question(prompt), stream: true })) {
      const [choice] = chunk.choices;
      if (chunk.ragwire?.event) seen.events.push(chunk.ragwire.event.event);
      seen.text += choice?.delta.content ?? "";
      if (choice?.finish_reason) ended(seen, chunk.ragwire);
    }
  } catch (error) {
    raised(seen, error);
  }
  return seen;
}

export async function whole(url, prompt) {
  const seen = nothing();
  try {
    const completion = await client(url).chat.completions.create(question(prompt));
    seen.text = completion.choices[0].message.content;
    ended(seen, completion.ragwire);
  } catch (error) {
    raised(seen, error);
  }
  return seen;
}
