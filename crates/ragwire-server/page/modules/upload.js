// Uploads files one by one, with the progress of each, and says for each refused file why.

import { element, make, plural } from "./dom.js";

const [uploads, status] = ["uploads", "upload-status"].map(element);
/** Files that are sent at the same time: the server reads few at once. */
const PARALLEL = 2;
/** How often a busy server is asked again for one file. */
const RETRIES = 12;
const RETRY_MS = 5000;
/** Most refused files that are listed. */
const MAX_REFUSED = 100;
/** The extensions that are read in folders: those of the server. A file that is chosen is sent in any case. */
const EXTENSIONS = "md markdown mdown mkd mdx txt text rst rest adoc asciidoc asc html htm xhtml pdf docx docm pptx pptm xlsx xlsm epub odt odp ods rtf csv tsv " +
  "json jsonl ndjson ipynb bash bat c cc cfg clj cmake conf cpp cs css dart erl ex exs go gradle graphql h hpp hs ini java jl js jsx kt lua mjs php " +
  "pl properties proto ps1 py r rb rs scala sh sql swift tf toml ts tsx yaml yml";
const TYPES = new RegExp(`\\.(${EXTENSIONS.replaceAll(" ", "|")})$`, "i");

const waiting = [];
let [active, total, done, added, refused] = [0, 0, 0, 0, 0];

/** Sends files `{file, name}`, for everyone to find if they are `shared`. `finished` is called when no file is left. */
export function send(files, finished, { shared = false } = {}) {
  if (active === 0 && waiting.length === 0) {
    [total, done, added, refused] = [0, 0, 0, 0];
    uploads.replaceChildren();
  }
  total += files.length;
  waiting.push(...files.map(({ file, name }) => ({ file, name, shared })));
  while (active < PARALLEL && waiting.length > 0) next(finished);
}

async function next(finished) {
  const { file, name, shared } = waiting.shift();
  active += 1;
  const bar = make("progress", undefined, { max: "100", value: "0", "aria-label": `Sending ${name}` });
  const note = make("span", "", { class: "note" });
  const item = make("li", undefined, {}, make("span", name, { class: "name" }), bar, note);
  uploads.prepend(item);
  report();
  const problem = await sendOne(file, name, shared, (share) => {
    bar.value = share * 100;
    note.textContent = share < 1 ? `${Math.round(share * 100)} %` : "Reading…";
  });
  active -= 1;
  done += 1;
  if (problem === null) {
    added += 1;
    item.remove();
  } else {
    refused += 1;
    bar.remove();
    item.classList.add("refused");
    note.textContent = problem;
    if (refused > MAX_REFUSED) item.remove();
  }
  report();
  if (waiting.length > 0) next(finished);
  else if (active === 0) finished();
}

function report() {
  if (done < total) status.textContent = total === 1 ? "Adding 1 file…" : `Adding ${plural(total, "file")}: ${done} done…`;
  else status.textContent = [added > 0 ? `${plural(added, "file")} added.` : "", refused > 0 ? `${plural(refused, "file")} not added.` : ""].filter((part) => part !== "").join(" ");
}

/** Sends one file, and returns `null` or why it was not added. */
async function sendOne(file, name, shared, progress) {
  for (let attempt = 0; ; attempt += 1) {
    const response = await post(file, name, shared, progress);
    if (response.status === 503 && attempt < RETRIES) {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      continue;
    }
    if (response.status === 0) return "The server cannot be reached.";
    if (response.status === 413) return `The file is too large (${(file.size / 1e6).toFixed(1)} MB).`;
    const { failed = [], error } = response.body;
    const reason = error?.message ?? failed[0]?.message ?? null;
    // The name is beside it.
    return reason === null ? null : capital(reason.startsWith(`${name}: `) ? reason.slice(name.length + 2) : reason);
  }
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** `fetch` does not report the progress of a body. */
function post(file, name, shared, progress) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    const form = new FormData();
    form.append("file", file, name);
    request.open("POST", shared ? "/v1/documents?shared=true" : "/v1/documents");
    request.responseType = "json";
    request.upload.addEventListener("progress", ({ loaded, total: size }) => progress(loaded / size));
    request.addEventListener("loadend", () => {
      const fallback = { error: { message: `The server answered ${request.status}.` } };
      resolve({ status: request.status, body: request.response ?? fallback });
    });
    request.send(form);
  });
}

/** Returns the documents of a chosen folder, without hidden files. */
export function inFolder(files) {
  const found = [...files].map((file) => ({ file, name: file.webkitRelativePath || file.name }));
  return found.filter(({ name }) => TYPES.test(name) && !/(^|\/)\./.test(name));
}

/** Returns the files of a drop, also those in folders. Files in folders that cannot be read are left out. */
export async function filesOf(transfer) {
  // The list is empty after the first wait.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (entries.length === 0) return [...transfer.files].map((file) => ({ file, name: file.name }));
  const found = [];
  for (const entry of entries) await collect(entry, "", found, true);
  return found;
}

async function collect(entry, folder, found, isDropped = false) {
  if (entry.isFile) {
    if (!isDropped && (entry.name.startsWith(".") || !TYPES.test(entry.name))) return;
    const file = await new Promise((resolve) => entry.file(resolve, () => resolve(null)));
    if (file !== null) found.push({ file, name: folder + entry.name });
    return;
  }
  if (!isDropped && entry.name.startsWith(".")) return;
  const reader = entry.createReader();
  for (;;) {
    // Each call returns at most a hundred entries.
    const some = await new Promise((resolve) => reader.readEntries(resolve, () => resolve([])));
    if (some.length === 0) return;
    for (const inner of some) await collect(inner, `${folder}${entry.name}/`, found);
  }
}
