// The Python clients of reader.py.
import { ClientProcess } from "./process.js";
import { beginSession } from "./seeds.js";

const reader = new ClientProcess(process.env.TEST_PYTHON ?? "python3", "reader.py");

/** What `client` of reader.py sees. */
export const python = (client) => (url, prompt) => reader.ask({ client, url, prompt });

export const sessionChat = async (url, prompt, server) =>
  reader.ask({ client: "session_chat", url, prompt, session: await beginSession(server) });
