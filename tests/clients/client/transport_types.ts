// Compiled by package.test.js: our transport has the type that each version of npm `ai` wants.
import type { ChatTransport as Ai6, UIMessage as Message6 } from "ai";
import type { ChatTransport as Ai5, UIMessage as Message5 } from "ai5";
import type { ChatTransport as Ai7, UIMessage as Message7 } from "ai7";
import { RagwireChatTransport } from "../../../clients/js/src/ai.js";

export const ai5: Ai5<Message5> = new RagwireChatTransport();
export const ai6: Ai6<Message6> = new RagwireChatTransport();
export const ai7: Ai7<Message7> = new RagwireChatTransport();
