// npm `ai`: the transports that `useChat` uses.
import { FramedDecoder, FramedError } from "../../../clients/js/src/framed.js";
import { broke, nothing, refused } from "../record.js";
import { collect } from "./ours.js";

// A new chat for each question, because a question ends the earlier one of its chat.
const send = (chat, prompt) =>
  chat.sendMessages({
    chatId: crypto.randomUUID(),
    trigger: "submit-message",
    messages: [{ id: "1", role: "user", parts: [{ type: "text", text: prompt }] }],
  });

/** The client throws the body of an error response. */
function thrown(seen, error) {
  return error.message.startsWith("{") ? refused(seen, null, error.message) : broke(seen, error);
}

/** The names of our events that a part of a message represents. */
const eventOf = (part) => {
  if (part.type.startsWith("data-")) return [part.type.slice("data-".length)];
  return part.type === "reasoning" ? [part.providerMetadata.ragwire.event] : [];
};

/** `DefaultChatTransport` and `readUIMessageStream` of a major version. */
export const uiMessages = (ai) => async (url, prompt) => {
  const seen = nothing();
  const errors = [];
  let message;
  try {
    const stream = await send(new ai.DefaultChatTransport({ api: `${url}/api/chat` }), prompt);
    const onError = (error) => errors.push(error);
    for await (const state of ai.readUIMessageStream({ stream, onError })) message = state;
  } catch (error) {
    return thrown(seen, error);
  }
  for (const part of message?.parts ?? []) {
    if (part.type === "text") seen.text += part.text;
    seen.events.push(...eventOf(part));
  }
  const { metadata } = message ?? {};
  if (metadata) {
    seen.outcome = metadata.status ?? "completed";
    seen.citations = metadata.citations.length;
    // The code is in the metadata; the message is that of the error raised.
    if (metadata.error) seen.error = { code: metadata.error.code, message: errors[0]?.message };
  }
  return errors.length > 0 ? broke(seen, errors[0]) : seen;
};

/** `TextStreamChatTransport` on the framed wire, whose text our decoder splits, as in a frontend of ADR 0007. */
export const text = (ai) => async (url, prompt) => {
  const seen = nothing();
  const chat = new ai.TextStreamChatTransport({
    api: `${url}/v1/rag/sessions/${crypto.randomUUID()}/messages/stream`,
    prepareSendMessagesRequest: ({ messages }) => ({ body: { prompt: messages.at(-1).parts[0].text } }),
  });
  try {
    const stream = await send(chat, prompt);
    const bytes = stream
      .pipeThrough(new TransformStream({ transform: (part, to) => part.type === "text-delta" && to.enqueue(part.delta) }))
      .pipeThrough(new TextEncoderStream());
    await collect(seen, bytes, new FramedDecoder());
  } catch (error) {
    return error instanceof FramedError ? broke(seen, error, "refused") : thrown(seen, error);
  }
  return seen;
};
