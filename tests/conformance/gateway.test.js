// The same clients in the same cases through a server whose orchestrator is the reference server: what each of them
// shows is what it shows without a gateway in between.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { startServer } from "../clients/harness.js";
import { CASES } from "./cases.js";
import { CLIENTS } from "./clients.js";
import { stopProcesses } from "./drivers/process.js";
import { CLIENT_TIMEOUT_MS, expected, truth } from "./suite.js";

/** What the gateway reports for an orchestrator that answers 500. The cause is in its log. */
const REFUSED = "The service that answers refused the question with status 500.";

let behind, server;
before(async () => {
  behind = await startServer();
  // One attempt: the case `before commit` always fails.
  const args = ["--orchestrator", `${behind.url}/v1/turns`, "--orchestrator-wire", "ndjson", "--orchestrator-attempts", "1"];
  server = await startServer({ args, faults: false });
});
after(async () => {
  stopProcesses();
  assert.equal(await server.stop(), 0);
  assert.equal(await behind.stop(), 0);
});

/** A case as the gateway's clients get it: a refusal of the orchestrator has the gateway's status and code. */
function throughGateway(real, wire) {
  if (real.outcome !== "http-error") return real;
  // TrustGraph's clients get the same type of error for both.
  const code = wire === "trustgraph" ? real.error.code : "upstream_refused";
  return { ...real, status: 502, error: { code, message: REFUSED } };
}

for (const client of CLIENTS) {
  describe(client.name, { timeout: CLIENT_TIMEOUT_MS }, () => {
    for (const kase of CASES) {
      test(kase.name, async () => {
        const real = throughGateway(await truth(behind.url, kase, client.wire), client.wire);
        const seen = await client.ask(server.url, kase.prompt, server.url);
        const wanted = expected(client, real);
        if (real.outcome === "http-error" && wanted.error?.message) {
          wanted.error.message = REFUSED;
          // Forge's route begins the response at once, so the code is in its stream.
          if (wanted.error.code === "LLM_ERROR") wanted.error.code = "UPSTREAM_REFUSED";
        }
        assert.deepEqual(seen, wanted);
      });
    }
  });
}
