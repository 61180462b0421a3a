// The same clients against a server that pads each piece of a stream: they show what they show without padding.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { startProxy, startServer } from "../clients/harness.js";
import { CASES } from "./cases.js";
import { CLIENTS } from "./clients.js";
import { stopProcesses } from "./drivers/process.js";
import { CLIENT_TIMEOUT_MS, expected, truth } from "./suite.js";

const BLOCK = 512;

let server;
before(async () => (server = await startServer({ args: ["--pad-to", String(BLOCK)] })));
after(async () => {
  stopProcesses();
  assert.equal(await server.stop(), 0);
});

for (const client of CLIENTS) {
  describe(client.name, { timeout: CLIENT_TIMEOUT_MS }, () => {
    for (const kase of CASES) {
      test(kase.name, async () => {
        const real = await truth(server.url, kase, client.wire);
        assert.deepEqual(await client.ask(server.url, kase.prompt, server.url), expected(client, real));
      });
    }

    // Only whole answers and text have no room for padding.
    test("its answer is padded", { skip: ["openai_whole", "framed"].includes(client.wire) }, async () => {
      const proxy = await startProxy(server.url);
      // Its retrieval takes long enough that its events and its text are different pieces.
      await client.ask(proxy.url, CASES[0].prompt, server.url);
      await proxy.stop();
      const padding = / {20}|\n{20}/;
      assert.ok(proxy.answers.some(({ came }) => padding.test(Buffer.concat(came).toString("latin1"))));
    });
  });
}
