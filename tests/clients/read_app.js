// Asks the endpoints at a URL with npm `ai`, `@ag-ui/client` and `openai`, and prints what each of them shows as one JSON
// object. For servers of other suites: `node read_app.js URL PROMPT`.
import { HttpAgent } from "@ag-ui/client";
import * as ai from "ai";
import OpenAI from "openai";
import { chatOf } from "./wires/chat.js";

const [url, prompt] = process.argv.slice(2);

async function useChat() {
  const Chat = chatOf(ai);
  const chat = new Chat({ id: "c", transport: new ai.DefaultChatTransport({ api: `${url}/api/chat` }) });
  await chat.sendMessage({ text: prompt });
  const parts = chat.messages.at(-1).parts;
  const text = parts.filter(({ type }) => type === "text").map((part) => part.text);
  const tools = parts.filter(({ type }) => type === "dynamic-tool").map(({ toolName }) => toolName);
  return { status: chat.status, text: text.join(""), tools };
}

async function agent() {
  const agent = new HttpAgent({ url: `${url}/ag-ui`, threadId: "t" });
  agent.addMessage({ id: "m", role: "user", content: prompt });
  await agent.runAgent({ runId: "r" });
  const answers = agent.messages.filter(({ role, content }) => role === "assistant" && content);
  const calls = agent.messages.flatMap(({ toolCalls = [] }) => toolCalls.map((call) => call.function.name));
  return { text: answers.map(({ content }) => content).join(""), tools: calls };
}

async function openai() {
  const { chat } = new OpenAI({ apiKey: "x", baseURL: `${url}/v1`, maxRetries: 0 });
  const stream = await chat.completions.create({ model: "ragwire", stream: true, messages: [{ role: "user", content: prompt }] });
  let [text, end] = ["", null];
  for await (const { choices } of stream) {
    text += choices[0]?.delta.content ?? "";
    end = choices[0]?.finish_reason ?? end;
  }
  return { text, end };
}

console.log(JSON.stringify({ ai: await useChat(), ag_ui: await agent(), openai: await openai() }));
// The clients keep their connections.
process.exit(0);
