use super::plain;
use crate::documents::parse::{ParseLimits, markdown};
use crate::test_data::check_blocks;

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    let wrong: Vec<String> = cases
        .iter()
        .map(|(text, expected)| (text, paragraphs(&plain(text)), paragraphs(expected)))
        .filter(|(_, found, expected)| found != expected)
        .map(|(text, found, expected)| format!("{text}\n  is {found:?}\n not {expected:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Several empty lines are as good as one, and spaces at the end of a line are as good as none.
fn paragraphs(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut text = lines.join("\n");
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    text.trim_matches('\n').to_owned()
}

#[test]
fn contents_of_admonitions_and_tabs_are_text() {
    let text = "# Routers\n\nBefore:\n\n=== \"File (YAML)\"\n\n    ```yaml\n    a:\n      b: 1\n    ```\n\n=== \"CLI\"\n\n    Run `x`.\n\n\
                !!! warning \"No `@` in names\"\n    It is not allowed.\n\n    - One\n\n    !!! note\n        Inner.\n\nAfter.\n\n\
                ??? example \"Two of them\"\n\n    Shown.\n\n    ```sh\n    open\nOutside.\n\n1. Item\n\n    !!! tip\n        In the item.\n";
    let parsed = markdown::parse(text, &ParseLimits::default()).unwrap();
    check_blocks(
        &parsed,
        &[
            ("Routers", "Before:"),
            ("Routers", "File (YAML)"),
            ("Routers", "a:\n  b: 1"),
            ("Routers", "CLI"),
            ("Routers", "Run x."),
            ("Routers", "No @ in names"),
            ("Routers", "It is not allowed."),
            ("Routers", "One"),
            ("Routers", "Inner."),
            ("Routers", "After."),
            ("Routers", "Two of them"),
            ("Routers", "Shown."),
            ("Routers", "open"),
            ("Routers", "Outside."),
            ("Routers", "Item"),
            ("Routers", "In the item."),
        ],
    );
    check(&[
        ("!!! important\n\nText", "Text"),
        ("!!! note inline end \"A title\"\n    Text", "A title\n\nText"),
        ("Title\n===\nWhat!!! no", "Title\n===\nWhat!!! no"),
        ("??? Really, no.\n    Text", "??? Really, no.\n    Text"),
        ("    !!! note\n        code", "    !!! note\n        code"),
    ]);
}

#[test]
fn containers_and_callouts_are_text() {
    check(&[
        (":::note\n\nText\n\n:::", "Text"),
        (":::tip Other images\nText\n:::", "Other images\n\nText"),
        (
            "::: details \"Click *me*\" {open}\nText\n::::",
            "Click *me*\n\nText",
        ),
        (":::caution[Backups!]\nText\n:::", "Backups!\n\nText"),
        ("::: {.callout-note title=\"x\"}\nText\n:::", "Text"),
        (
            ":::{admonition} A title\n:class: tip\nText\n:::",
            "A title\n\nText",
        ),
        (
            "```{note} A title\n:class: tip\n\nText\n```\nMore",
            "A title\n\nText\n\nMore",
        ),
        (
            "````{note}\n```py\n{{< a >}}\n```\n````\nMore",
            "```py\n{{< a >}}\n```\n\nMore",
        ),
        ("```{python}\nx = 1\n```", "```{python}\nx = 1\n```"),
        ("> [!NOTE]\n> Text", ">\n>\n> Text"),
        ("> [!tip]- A title\n> Text", "> A title\n>\n> Text"),
        (
            "- item\n\n   :::warning\n\n   Text\n\n   :::",
            "- item\n\n   Text",
        ),
        ("a ::: b\n::", "a ::: b\n::"),
        (
            "```yaml tab=\"File\"\na: 1\n```",
            "File\n\n```yaml tab=\"File\"\na: 1\n```",
        ),
        (
            "```sh [npm]\nnpm i\n```\n```sh [a][0]\nb\n```",
            "npm\n\n```sh [npm]\nnpm i\n```\n```sh [a][0]\nb\n```",
        ),
        ("[TOC]\nText\n[[_toc_]]\n--8<-- \"a.md\"", "Text"),
        (
            "import Tabs from '@theme/Tabs';\nimport is a word.",
            "import is a word.",
        ),
    ]);
}

#[test]
fn shortcodes_show_what_the_reader_sees() {
    check(&[
        ("{{< hint style=\"warning\" >}}\nText\n{{< /hint >}}", "Text"),
        ("See [the page]({{< relref \"a/b#c\" >}}).", "See [the page](#)."),
        (
            "![A form]({{% asset \"a.png\" %}}?classes=shadow)",
            "![A form](#?classes=shadow)",
        ),
        ("[page]: {{< relref \"a\" >}}", "[page]: #"),
        (
            "{{< figure src=\"a.png\" width=\"70%\" caption=\"The form\" >}}",
            "The form",
        ),
        (
            "{{< caption-link url=\"https://a.b\" caption=\"a.rb\" >}}",
            "a.rb",
        ),
        ("{{<required>}} String. The id.", "required String. The id."),
        (
            "## A feature {{%deprecated%}} {#id}",
            "## A feature deprecated {#id}",
        ),
        ("{{< note >}}Text{{< /note >}}", "Text"),
        ("{{< toc >}}\n{{< children depth=\"2\" >}}\nText", "Text"),
        ("| {{< accesskey \"s\" >}} | Save |", "| s | Save |"),
        ("{{< version \"4.13\" >}}", "4.13"),
        ("{{< youtube \"dQw4w9WgXcQ\" >}}\n{{% include \"a/b.md\" %}}", ""),
        (
            "{{% expand \"How many?\" %}}\nTwo.\n{{% /expand %}}",
            "How many?\n\nTwo.",
        ),
        ("{{% tab \"Docker\" %}}\nText", "Docker\n\nText"),
        ("{{< tab name=\"Docker\" >}}\nText", "Docker\n\nText"),
        ("{{< tabs name=\"an_id\" >}}\nText", "Text"),
        (
            "{{< figure\n  src=\"a.png\"\n  title=\"A title\"\n>}}\nText",
            "A title\n\nText",
        ),
        (
            "{{< highlight yaml \"linenos=on\" >}}\na: {{ b }}\n\n```\n{{< /highlight >}}\nText",
            "~~~~~~yaml\na: {{ b }}\n\n```\n~~~~~~\nText",
        ),
        (
            "{% include a.html title=\"no\" %}{% raw %}Text{% endraw %}",
            "noText",
        ),
        ("{% hint style=\"info\" %}\nText\n{% endhint %}", "Text"),
        (
            "{% highlight ruby %}\na\n{% endhighlight %}\nText",
            "~~~~~~ruby\na\n~~~~~~\nText",
        ),
        ("{% tab title=\"npm\" %}\nText", "npm\n\nText"),
        (
            "Use `{{< a >}}`, ``{% b %}`` or \\{{< c >}}.",
            "Use `{{< a >}}`, ``{% b %}`` or \\{{< c >}}.",
        ),
        ("```\n{{< a >}}\n```", "```\n{{< a >}}\n```"),
        ("Text\n\n    {% if a %}", "Text\n\n    {% if a %}"),
        ("- item\n\n    {% if a %}Text", "- item\n\n    Text"),
        ("{{ value }} and {{< a", "{{ value }} and {{< a"),
        (
            "---\ntitle: \"{{< a >}}\"\n---\n{{< a >}}",
            "---\ntitle: \"{{< a >}}\"\n---",
        ),
    ]);
}

#[test]
fn components_and_attributes_are_left_out() {
    check(&[
        (
            "<TabItem value='a' label='Shows'>\nText\n</TabItem>",
            "Shows\n\nText",
        ),
        (
            "<Accordion title=\"How many?\">Two.</Accordion>",
            "How many?\n\nTwo.</Accordion>",
        ),
        (
            "<img style={{ a: \"1\" }} src={x(\"./a.png\")} /> <a style={{ b: '>' }} href='c'> Text</a>",
            "  Text</a>",
        ),
        ("<img\n  style={{\n    a: 1\n  }}\n/>\nText", "Text"),
        ("{/* a\n\nb */}\nText{\" \"}here", "Text here"),
        (
            "- item\n\n  <Step title=\"One\">Text</Step>",
            "- item\n\n  One\n\n  Text</Step>",
        ),
        (
            "<b>Text</b> a < b, <VirtualHost *:80>",
            "<b>Text</b> a < b, <VirtualHost *:80>",
        ),
        ("a <b and {x}\nmore", "a <b and {x}\nmore"),
        (
            "{: .no_toc }\nText\n{:toc}\n[a](b){target=_blank} `c`{.d} e {f=1}",
            "Text\n[a](b) `c` e {f=1}",
        ),
        (
            "See {ref}`the page <page>` and {func}`a.b`.",
            "See the page and `a.b`.",
        ),
    ]);
}

#[test]
fn contents_of_components_are_text() {
    let text = "# Fruit\n\n<Tabs>\n  <TabItem value=\"a\" label=\"Apple\" default>\n    This is an **apple**.\n\n    ```js\n    eat()\n    ```\n  </TabItem>\n  \
                <TabItem\n    value=\"b\"\n    label=\"Banana\"\n  >\n    Two.\n  </TabItem>\n</Tabs>\n\n1. Item\n\n   <Note>\n     In it.\n   </Note>\n\n   Still in it.\n\nAfter.\n";
    let parsed = markdown::parse(text, &ParseLimits::default()).unwrap();
    check_blocks(
        &parsed,
        &[
            ("Fruit", "Apple"),
            ("Fruit", "This is an apple."),
            ("Fruit", "eat()"),
            ("Fruit", "Banana"),
            ("Fruit", "Two."),
            ("Fruit", "Item"),
            ("Fruit", "In it."),
            ("Fruit", "Still in it."),
            ("Fruit", "After."),
        ],
    );
}

#[test]
fn text_that_looks_alike_stays() {
    check(&[
        (
            "$\\sum_{i=1}^{n} x_i$ and X_{:,i} and {:?}",
            "$\\sum_{i=1}^{n} x_i$ and X_{:,i} and {:?}",
        ),
        (
            "!!! Do not delete this folder\nMore",
            "!!! Do not delete this folder\nMore",
        ),
        (
            "1. Write:\n\n        import \"fmt\"\n        {% load a %}",
            "1. Write:\n\n        import \"fmt\"\n        {% load a %}",
        ),
        (
            "<pre>\n{% load a %}\nimport x from 'y'\n</pre>\n{% a %}",
            "<pre>\n{% load a %}\nimport x from 'y'\n</pre>",
        ),
        ("import the library \"numpy\"", "import the library \"numpy\""),
        (
            "Values <n are small:\n```\nif a > b\n```\n{% a %}",
            "Values <n are small:\n```\nif a > b\n```",
        ),
        (
            "{{< highlight html >}}\n<a>\n</a>{{< /highlight >}}\n{% a %}Text",
            "~~~~~~html\n<a>\n</a>\n~~~~~~\nText",
        ),
        (
            "{% include note.html content=\"Back up first.\" %}",
            "Back up first.",
        ),
        (
            "{{< figure title=\"Fig 1\" caption=\"A robin.\" >}}",
            "Fig 1: A robin.",
        ),
        (
            "Press {{< kbd \"Ctrl+Shift+P\" >}} or {{< kbd Enter >}}.",
            "Press Ctrl+Shift+P or Enter.",
        ),
        (
            "In {{< glossary_tooltip term_id=\"etcd\" >}} or {{% siteparam \"version\" %}}.",
            "In etcd or .",
        ),
    ]);
}

#[test]
fn headings_and_links_lose_their_marks() {
    let text = "# Title {#id .class}\n\nSee [[Page|the page]] and [[Other]].\n";
    let parsed = markdown::parse(text, &ParseLimits::default()).unwrap();
    check_blocks(&parsed, &[("Title", "See the page and Other.")]);
}

#[test]
fn blocks_of_pymdownx_and_included_files_are_text_or_left_out() {
    check(&[
        (
            "Before.\n\n/// note\n\nInside.\n\n///\n\nAfter.",
            "Before.\n\nInside.\n\nAfter.",
        ),
        (
            "/// tip | A title\nInside.\n///\nAfter.",
            "A title\n\nInside.\n\nAfter.",
        ),
        (
            "//// details | More\n    open: true\n    type: tip\n\nInside.\n////",
            "More\n\nInside.",
        ),
        ("/// html | div\nInside.\n///", "Inside."),
        (
            "Use it:\n\n{* ../src/a.py hl[1,2] *}\n\n{!../b.md!}\n\nDone.",
            "Use it:\n\nDone.",
        ),
        // These are text.
        ("/// Returns the robin.", "/// Returns the robin."),
        ("/// TODO", "/// TODO"),
        ("///usr", "///usr"),
        ("///", "///"),
        ("{*optional*}", "{*optional*}"),
        (
            "/// note\n Example: kept\n\n///\n    key: kept",
            " Example: kept\n\n    key: kept",
        ),
        (
            "- item\n\n    /// note\n    Warning: kept.\n    ///",
            "- item\n\n    Warning: kept.",
        ),
        ("// note", "// note"),
        ("{* a {b} *}", "{* a {b} *}"),
        ("```\n/// note\n{* a *}\n```", "```\n/// note\n{* a *}\n```"),
    ]);
}
