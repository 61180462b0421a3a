// `HttpAgent` of @ag-ui/client, in a process of its own: where a connection breaks it leaves a rejection that nobody can handle.
import { ClientProcess } from "./process.js";

const reader = new ClientProcess(process.execPath, "reader.js");

export const agent = (url, prompt) => reader.ask({ url, prompt });
