// The documents behind citations: their names, and the files as they were added.

const names = new Map();
const found = new Map();

/** Takes over the documents of the library. */
export function setDocuments(documents) {
  names.clear();
  for (const { id, name } of documents) names.set(id, name);
}

/** Returns the name of a document, also of one that has been removed. */
export const nameOf = (id) => names.get(id) ?? (names.size === 0 ? id : "A document that was removed");

/** Returns the address of a passage in its original file, or `null` if the server does not have the file. */
export async function originalOf({ document: id, page }) {
  const address = `/v1/documents/${encodeURIComponent(id)}/original`;
  if (!found.has(id)) {
    const asked = fetch(address, { method: "HEAD" }).then(({ ok, headers }) => (ok ? headers.get("content-type") : null));
    found.set(id, asked.catch(() => null));
  }
  const type = await found.get(id);
  if (type === null) return null;
  return type === "application/pdf" && page !== null ? `${address}#page=${page}` : address;
}
