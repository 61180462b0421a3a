// Reads one turn as the frontend of ADR 0007 does: `TextStreamChatTransport` of npm `ai` passes the
// raw stream on, and the frontend splits it at the first 0x1D and the last 0x1E. Prints JSON.
//
//     node read_adr.js URL PROMPT
import { TextStreamChatTransport } from "ai";

const [url, prompt] = process.argv.slice(2);
const chat = new TextStreamChatTransport({
  api: url,
  prepareSendMessagesRequest: ({ messages }) => ({ body: { prompt: messages.at(-1).parts[0].text } }),
});

/** The splitter of the frontend: events before the first 0x1D, metadata after the last 0x1E. */
function split(raw) {
  const begin = raw.indexOf("\x1d");
  const end = raw.lastIndexOf("\x1e");
  if (begin < 0 || end < begin) return { raw };
  const lines = raw.slice(0, begin).split("\n").filter((line) => line.trim() !== "");
  return {
    events: lines.map((line) => JSON.parse(line)),
    text: raw.slice(begin + 1, end),
    metadata: JSON.parse(raw.slice(end + 1)),
  };
}

try {
  const messages = [{ id: "1", role: "user", parts: [{ type: "text", text: prompt }] }];
  const stream = await chat.sendMessages({ chatId: "chat", trigger: "submit-message", messages });
  let raw = "";
  for await (const part of stream) if (part.type === "text-delta") raw += part.delta;
  console.log(JSON.stringify(split(raw)));
} catch (error) {
  console.log(JSON.stringify({ refused: error.message }));
}
