// `HttpAgent` of @ag-ui/client, in a separate process: if a connection breaks, it leaves a
// rejection that its caller cannot handle.
import { ClientProcess } from "./process.js";

const reader = new ClientProcess(process.execPath, "reader.js");

export const agent = (url, prompt) => reader.ask({ url, prompt });
