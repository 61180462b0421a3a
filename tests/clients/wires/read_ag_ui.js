// Reads a stream with `HttpAgent` of @ag-ui/client; as a program, the one at the URL in its first
// argument.
import { fileURLToPath } from "node:url";
import { HttpAgent } from "@ag-ui/client";

/** Reads a stream with an agent and returns what it reports. */
export async function read(url, prompt = "?") {
  const agent = new HttpAgent({ url, threadId: "t" });
  agent.addMessage({ id: "u", role: "user", content: prompt });
  const seen = { events: [], failed: null, error: null, outcome: null, result: null, messages: null };
  const { error: log } = console;
  console.error = () => {}; // It logs what it throws.
  try {
    const { result, newMessages } = await agent.runAgent(
      { runId: "r" },
      {
        onEvent: ({ event }) => void seen.events.push(event),
        onRunFailed: ({ error }) => void (seen.failed = error.message),
        onRunErrorEvent: ({ event }) => void (seen.error = { message: event.message, code: event.code }),
        onRunFinishedEvent: ({ outcome }) => void (seen.outcome = outcome),
      },
    );
    seen.result = result ?? null;
    seen.messages = newMessages;
  } catch (error) {
    seen.failed ??= error.message;
    seen.messages = agent.messages.slice(1);
  } finally {
    console.error = log;
  }
  return seen;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const rejections = [];
  process.on("unhandledRejection", (error) => rejections.push(error.message));
  const seen = await read(process.argv[2]);
  await new Promise(setImmediate);
  console.log(JSON.stringify({ ...seen, rejections }));
}
