// The renderer of the page: Markdown becomes a tree and then elements, never markup.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Window } from "happy-dom";
import { parse } from "../../crates/ragwire-server/page/modules/markdown.js";

const window = new Window({ url: "http://localhost/" });
Object.assign(globalThis, { document: window.document, Node: window.Node });
const { render } = await import("../../crates/ragwire-server/page/modules/render.js");

const number = (written) => (written >= 1 && written <= 3 ? written : null);

/** Renders a text at once. */
function rendered(text, options = {}) {
  const container = document.createElement("div");
  render(container, text, { number, ...options });
  return container;
}
const html = (text, options) => rendered(text, options).innerHTML;

const LINK = 'target="_blank" rel="noopener noreferrer nofollow"';
const cite = (shown) => `<button type="button" class="cite" data-cite="${shown}" aria-label="Citation ${shown}">[${shown}]</button>`;

test("each construct becomes its elements", () => {
  const cases = [
    ["Plain.", "<p>Plain.</p>"],
    ["one\ntwo\n\nthree", "<p>one\ntwo</p><p>three</p>"],
    ["**b** *i* _i_ __b__ ~~d~~ `c`", "<p><strong>b</strong> <em>i</em> <em>i</em> <strong>b</strong> <del>d</del> <code>c</code></p>"],
    ["***both***", "<p><strong><em>both</em></strong></p>"],
    ["**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"],
    ["2 * 3 * 4, snake_case_name, a ** b", "<p>2 * 3 * 4, snake_case_name, a ** b</p>"],
    ["`` a`b ``, `*no*`", "<p><code>a`b</code>, <code>*no*</code></p>"],
    ["\\*no\\* \\a", "<p>*no* \\a</p>"],
    ["# A\n## B ##\n#### C\n# D", "<h3>A</h3><h4>B</h4><h5>C</h5><h3>D</h3>"],
    ["#no", "<p>#no</p>"],
    ["- a\n- b\n  - c\n\n1. d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul><ol><li>d</li></ol>"],
    ["3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'],
    ["1. a\n\n2. b\n   more", "<ol><li>a</li><li>b\nmore</li></ol>"],
    ["> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"],
    ["a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"],
    ["[text](https://example.org/a(b)?c=1)", `<p><a href="https://example.org/a(b)?c=1" ${LINK}>text</a></p>`],
    ["See https://example.org/x. Now", `<p>See <a href="https://example.org/x" ${LINK}>https://example.org/x</a>. Now</p>`],
    ["<https://example.org/>", `<p><a href="https://example.org/" ${LINK}>https://example.org/</a></p>`],
    ["![a picture](https://example.org/a.png)", `<p><a href="https://example.org/a.png" ${LINK}>a picture</a></p>`],
    ["Facts.[1] [3][2] [4] [0]", `<p>Facts.${cite(1)}&nbsp;${cite(3)}${cite(2)} [4] [0]</p>`],
    ["Facts [1]. More [2], [3]", `<p>Facts&nbsp;<span class="cited">${cite(1)}.</span> More&nbsp;<span class="cited">${cite(2)},</span>&nbsp;${cite(3)}</p>`],
    ["**bold [1]**", `<p><strong>bold&nbsp;${cite(1)}</strong></p>`],
    ["`[1]`", "<p><code>[1]</code></p>"],
  ];
  for (const [text, expected] of cases) assert.equal(html(text), expected, text);
});

test("a table has a header, aligned cells, and cells for missing ones", () => {
  const table = rendered("| a | b |\n|:-:|--:|\n| 1 \\| 2 | **3** |\n| 4 |\n\nafter").querySelector("table");
  assert.deepEqual([...table.querySelectorAll("th, td")].map((cell) => [cell.textContent, cell.className]), [
    ["a", "center"], ["b", "end"], ["1 | 2", "center"], ["3", "end"], ["4", "center"], ["", "end"]]);
});

test("a code block keeps every character and names its language", () => {
  const container = rendered("```rust\nfn a() {\n\n    *b\n}\n```\nafter");
  assert.equal(container.querySelector("pre").textContent, "fn a() {\n\n    *b\n}");
  assert.equal(container.querySelector(".code-bar span").textContent, "rust");
  assert.equal(container.lastElementChild.textContent, "after");
});

const NASTY = [
  "<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "</p></div><b>x</b>", "&lt;b&gt;&amp;&#x41;",
  "[x](javascript:alert(1))", "[x](JaVaScRiPt:alert(1))", "[x](data:text/html,<b>)", "[x](\u0001javascript:alert(1))", "[x](java\tscript:alert(1))",
  "<javascript:alert(1)>", "[x](vbscript:x)", "[x](/relative)", "![x](javascript:alert(1))", "[<img src=x>](https://e.org/\"onclick=alert(1))",
  "[a](https://e.org/\" onmouseover=\"x)", "```<img>\n<script>\n```", "| <img src=x> | b |\n|---|---|\n| <script> | [x](javascript:1) |",
  "# <iframe src=x>", "- <svg onload=x>", "> <style>*{}</style>", "**<b onclick=x>**", "`<img>`", "\u0000\u2028\u202e", "[^1]: x", "<!-- [1] -->", "{{constructor}}",
  "__proto__ [constructor](toString)",
];
const TAGS = new Set(["P", "STRONG", "EM", "DEL", "CODE", "PRE", "H3", "H4", "H5", "H6", "UL", "OL", "LI", "BLOCKQUOTE", "HR", "A", "BUTTON", "DIV", "SPAN", "TABLE", "THEAD", "TBODY", "TR", "TH", "TD"]);
const ATTRIBUTES = new Set(["class", "href", "target", "rel", "type", "data-cite", "aria-label", "tabindex", "role", "start"]);

/** Checks that the page contains only elements and attributes of its own, and only safe links. */
function assertSafe(container, text) {
  for (const each of container.querySelectorAll("*")) {
    assert.ok(TAGS.has(each.tagName), `${each.tagName} from ${text}`);
    for (const { name } of each.attributes) assert.ok(ATTRIBUTES.has(name), `${name} from ${text}`);
    if (each.tagName === "A") {
      assert.match(each.getAttribute("href"), /^(https?|mailto):/, text);
      assert.equal(each.getAttribute("rel"), "noopener noreferrer nofollow");
    }
  }
}

test("hostile text stays text", () => {
  for (const text of NASTY) assertSafe(rendered(text), text);
  assert.equal(rendered("<img src=x onerror=alert(1)>").textContent, "<img src=x onerror=alert(1)>");
  assert.equal(rendered("[x](javascript:alert(1))").textContent, "[x](javascript:alert(1))");
});

const DOCUMENT = `Intro with **bold [1] text**, \`code\` and a [link](https://example.org/a). snake_case 2 * 3.

## Heading with *stress*

1. First
2. Second [2]
   - nested **item**
   - another

> Quoted
> lines

| a | b |
|---|--:|
| 1 | \`x\` |
| 2 | [3] |

\`\`\`js
const a = [1];
\`\`\`

---

${NASTY.join("\n\n")}

Last ~~line~~ https://example.org/end.`;

test("every prefix of a document renders safely, and a stream ends with the same elements as the whole", () => {
  const live = document.createElement("div");
  for (let length = 0; length <= DOCUMENT.length; length += 1) {
    const text = DOCUMENT.slice(0, length);
    render(live, text, { open: true, number });
    assertSafe(live, text);
    if (length % 25 === 0) {
      // The elements that were updated are those of a page that shows this text at once.
      assert.equal(live.innerHTML, html(text, { open: true }), `after ${length}`);
    }
  }
  render(live, DOCUMENT, { number });
  assert.equal(live.innerHTML, html(DOCUMENT));
});

test("only the last block changes while a text grows", () => {
  const shown = (text) => parse(text, { open: true }).map((block) => JSON.stringify(block));
  const begin = DOCUMENT.slice(0, DOCUMENT.indexOf(NASTY[0]));
  let before = [];
  for (let length = 0; length <= begin.length; length += 1) {
    const now = shown(begin.slice(0, length));
    const settled = before.slice(0, Math.max(0, before.length - 1));
    assert.deepEqual(now.slice(0, settled.length), settled, JSON.stringify(begin.slice(0, length)));
    before = now;
  }
});

test("what is begun is shown as it will be, and half a marker is not shown", () => {
  const cases = [
    ["**bo", "<p><strong>bo</strong></p>"], ["a **", "<p>a </p>"], ["`co", "<p><code>co</code></p>"], ["see [1", "<p>see </p>"],
    ["see [the li", "<p>see the li</p>"], ["[text](https://exam", "<p>text</p>"], ["a\n-", "<p>a</p>"], ["##", ""],
    ["```js\nlet a", "pre"], ["| a | b |", "table"], ["| a | b |\n|--", "table"],
  ];
  for (const [text, expected] of cases) {
    if (expected.startsWith("<") || expected === "") assert.equal(html(text, { open: true }), expected, text);
    else assert.ok(rendered(text, { open: true }).querySelector(expected), text);
  }
  assert.equal(html("see [1"), "<p>see [1</p>");
  assert.equal(html("a **"), "<p>a **</p>");
});

test("elements that did not change are the same elements", () => {
  const live = document.createElement("div");
  render(live, "One [1].\n\nTwo", { open: true, number });
  const button = live.querySelector("button");
  const text = live.lastElementChild.firstChild;
  render(live, "One [1].\n\nTwo and three", { open: true, number });
  assert.equal(live.querySelector("button"), button);
  assert.equal(live.lastElementChild.firstChild, text);
});

// A rule whose work grows with the square of the text would take many minutes here.
test("long texts of begun markers are parsed", { timeout: 120_000 }, () => {
  const pieces = ["**a ", "*a ", "_a ", "`a ``b ", "[", "[a](", "![a", "> ", "- ", "|a", "~~", "https://", "<", "\\", "#", "1. ", "**a** ", "[1]",
    "\n> - ", "| a |\n|---|\n", "* * *a", "``` ", "]("];
  for (const piece of pieces) {
    const text = piece.repeat(64_000);
    for (const open of [false, true]) assert.ok(parse(text, { open }).length > 0 || piece === "#", piece);
  }
});
