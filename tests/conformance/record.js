// The record of what a client shows of a turn, the same for all clients.
//
// | member | |
// |---|---|
// | `text` | the answer as the client shows it |
// | `events` | the names of the events, in order |
// | `outcome` | see below |
// | `status` | the HTTP status of an error response, null if the client does not report it |
// | `error` | the failure that the client reports: `{code?, message?}` |
// | `citations` | the number of citations, null if there was no list of them |
//
// | outcome | the client |
// |---|---|
// | `completed`, `failed`, `stopped` | got the wire's own mark of that end |
// | `truncated` | reported that the stream broke, for example with an error |
// | `refused` | reported that the stream breaks the rules of its wire |
// | `http-error` | got an error status and no stream |
// | `hangs` | got no notice and waits forever |
// | `unreported` | came to an end without a mark and without an error |

/** The record of a client that has got nothing yet. */
export const nothing = () => ({
  text: "",
  events: [],
  outcome: "unreported",
  status: null,
  error: null,
  citations: null,
});

/** Records an error response with the text `body`. */
export function refused(seen, status, body) {
  const { code, message } = JSON.parse(body).error;
  return Object.assign(seen, { status, outcome: "http-error", error: { code, message } });
}

/** Records that reading ended with `error`. An end that was marked before stays. */
export function broke(seen, error, outcome = "truncated") {
  if (seen.outcome !== "unreported") return seen;
  return Object.assign(seen, { outcome, error: { message: error.message } });
}
