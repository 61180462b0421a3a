// The published clients at the versions of this folder's package.json, for tests in other folders,
// because a bare import is resolved relative to the importing file.
export * as ai5 from "ai5";
export * as ai6 from "ai";
export * as ai7 from "ai7";
export { HttpAgent } from "@ag-ui/client";
export { default as OpenAI, APIError } from "openai";
export * as eve011 from "eve/client";
export * as eve018 from "eve018/client";
