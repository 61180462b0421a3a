// The Python clients of reader.py.
import { ClientProcess } from "./process.js";
import { beginSession } from "./documented.js";

const reader = new ClientProcess(process.env.TEST_PYTHON ?? "python3", "reader.py");

/** The record of `client` in reader.py. */
export const python = (client) => (url, prompt) => reader.ask({ client, url, prompt });

export const sessionChat = async (url, prompt, server) =>
  reader.ask({ client: "session_chat", url, prompt, session: await beginSession(server) });
