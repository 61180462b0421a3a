// What a client saw of a turn: the same record for each of them.
//
// | member | |
// |---|---|
// | `text` | the answer as the client shows it |
// | `events` | the names of the events, in order |
// | `outcome` | see below |
// | `status` | the HTTP status of a response that is no success, null where the client does not tell it |
// | `error` | what the client tells of a failure: `{code?, message?}` |
// | `citations` | how many, null where it was told of none |
//
// | outcome | the client |
// |---|---|
// | `completed`, `failed`, `stopped` | saw the wire's own mark of that end |
// | `truncated` | was told that the stream broke: it raised an error, or said so |
// | `refused` | says that the stream breaks the rules of its wire |
// | `http-error` | saw a status that is no success, and no stream |
// | `hangs` | was told nothing, and waits for ever |
// | `unreported` | came to an end without a mark and without an error: nothing tells it from a whole turn but the missing mark |

/** A record of a client that has seen nothing yet. */
export const nothing = () => ({
  text: "",
  events: [],
  outcome: "unreported",
  status: null,
  error: null,
  citations: null,
});

/** A response that is no success; `body` is the text of it. */
export function refused(seen, status, body) {
  const { code, message } = JSON.parse(body).error;
  return Object.assign(seen, { status, outcome: "http-error", error: { code, message } });
}

/** The reading broke off with `error`. What was marked before has been seen, and stays. */
export function broke(seen, error, outcome = "truncated") {
  if (seen.outcome !== "unreported") return seen;
  return Object.assign(seen, { outcome, error: { message: error.message } });
}
