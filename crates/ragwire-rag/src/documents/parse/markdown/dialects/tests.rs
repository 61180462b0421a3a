use super::plain;
use crate::documents::parse::{ParseLimits, markdown};
use crate::test_data::check_blocks;

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let found = plain(text);
        // Empty lines are those of Markdown: one is as good as two.
        let lines = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            lines.map(|line| line.trim_end().to_owned()).collect()
        };
        assert_eq!(lines(&found), lines(expected), "{text}");
    }
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
        ("!!! note inline end \"A title\"\n    Text", "A title\nText"),
        ("Title\n===\nWhat!!! no", "Title\n===\nWhat!!! no"),
        ("??? Really, no.\n    Text", "??? Really, no.\n    Text"),
        ("    !!! note\n        code", "    !!! note\n        code"),
    ]);
}

#[test]
fn containers_and_callouts_are_text() {
    check(&[
        (":::note\n\nText\n\n:::", "Text"),
        (":::tip Other images\nText\n:::", "Other images\nText"),
        (
            "::: details \"Click *me*\" {open}\nText\n::::",
            "Click *me*\nText",
        ),
        (":::caution[Backups!]\nText\n:::", "Backups!\nText"),
        ("::: {.callout-note title=\"x\"}\nText\n:::", "Text"),
        (":::{admonition} A title\n:class: tip\nText\n:::", "A title\nText"),
        (
            "```{note} A title\n:class: tip\n\nText\n```\nMore",
            "A title\nText\nMore",
        ),
        (
            "````{note}\n```py\n{{< a >}}\n```\n````\nMore",
            "```py\n{{< a >}}\n```\nMore",
        ),
        ("```{python}\nx = 1\n```", "```{python}\nx = 1\n```"),
        ("> [!NOTE]\n> Text", ">\n>\n> Text"),
        ("> [!tip]- A title\n> Text", "> A title\n>\n> Text"),
        ("- item\n\n   :::warning\n\n   Text\n\n   :::", "- item\n   Text"),
        ("a ::: b\n::", "a ::: b\n::"),
        (
            "```yaml tab=\"File\"\na: 1\n```",
            "File\n```yaml tab=\"File\"\na: 1\n```",
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
            "How many?\nTwo.",
        ),
        ("{{% tab \"Docker\" %}}\nText", "Docker\nText"),
        ("{{< tab name=\"Docker\" >}}\nText", "Docker\nText"),
        ("{{< tabs name=\"an_id\" >}}\nText", "Text"),
        (
            "{{< figure\n  src=\"a.png\"\n  title=\"A title\"\n>}}\nText",
            "A title\nText",
        ),
        (
            "{{< highlight yaml \"linenos=on\" >}}\na: {{ b }}\n\n```\n{{< /highlight >}}\nText",
            "~~~~~~yaml\na: {{ b }}\n```\n~~~~~~\nText",
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
        ("{% tab title=\"npm\" %}\nText", "npm\nText"),
        (
            "Use `{{< a >}}`, ``{% b %}`` or \\{{< c >}}.",
            "Use `{{< a >}}`, ``{% b %}`` or \\{{< c >}}.",
        ),
        ("```\n{{< a >}}\n```", "```\n{{< a >}}\n```"),
        ("Text\n\n    {% if a %}", "Text\n\n    {% if a %}"),
        ("- item\n\n    {% if a %}Text", "- item\n    Text"),
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
            "Shows\nText\n</TabItem>",
        ),
        (
            "<Accordion title=\"How many?\">Two.</Accordion>",
            "How many?\nTwo.</Accordion>",
        ),
        (
            "<img style={{ a: \"1\" }} src={x(\"./a.png\")} /> <a style={{ b: '>' }} href='c'> Text</a>",
            "  Text</a>",
        ),
        ("<img\n  style={{\n    a: 1\n  }}\n/>\nText", "Text"),
        ("{/* a\n\nb */}\nText{\" \"}here", "Text here"),
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
fn headings_and_links_lose_their_marks() {
    let text = "# Title {#id .class}\n\nSee [[Page|the page]] and [[Other]].\n";
    let parsed = markdown::parse(text, &ParseLimits::default()).unwrap();
    check_blocks(&parsed, &[("Title", "See the page and Other.")]);
}
