use super::*;
use crate::test_data::{check_blocks, check_returns_soon, check_terms};
use std::time::Instant;

#[test]
fn visible_text_is_kept() {
    let page = "<html><head><title>The  page</title><style>p{}</style></head><body>\
        <nav><a>Home</a></nav><div role=navigation>next | previous</div><h1>Guide <em>one</em><a class=headerlink href='#x'>¶</a></h1><p>Hello<br>there <b>bold</b>, <tt>mo<wbr>no</tt>.<p>Unclosed.\
        <div class=navheader><a>Prev</a> | Next</div><ul class=docnav><li>Up</ul><div class=toc><dl><dt>2. Install</dl></div>\
        <p hidden>secret<p style='display : none'>secret</p><div aria-hidden=true><p>secret</p></div>\
        <template><p>secret</p></template><script>secret()</script>\
        <h2>Install</h2><ul><li>first<li>second<ul><li>inner</ul></ul>\
        <table><tr><th>a<th>b<tr><td>1<td>2</table><pre>fn a() {\n  x\n}</pre>tail</body></html>";
    let parsed = parse(page, &ParseLimits::default()).unwrap();
    assert_eq!(parsed.title.as_deref(), Some("The page"));
    check_blocks(
        &parsed,
        &[
            ("Guide one", "Hello there bold, mono."),
            ("Guide one", "Unclosed."),
            ("Guide one > Install", "first"),
            ("Guide one > Install", "second"),
            ("Guide one > Install", "inner"),
            ("Guide one > Install", "a | b"),
            ("Guide one > Install", "1 | 2"),
            ("Guide one > Install", "fn a() {\n  x\n}"),
            ("Guide one > Install", "tail"),
        ],
    );
}

#[test]
fn a_row_has_the_names_of_its_columns() {
    let page = "<table><thead><tr><th><p>Food</p><th><p>For</p><tbody>\
        <tr><td><p>seeds</p><td><p>robins</p><p>and <b>wrens</b></p><tr><td><ul><li>mice<li>voles</ul><td>owls</table>\
        <p>After.<table><tr><td><h2>Left</h2><p>One.<p>Two.<td>Right.<table><tr><th>a<td>b</table></table>";
    let parsed = parse(page, &ParseLimits::default()).unwrap();
    let blocks: Vec<_> = parsed
        .blocks
        .iter()
        .map(|block| (block.columns.as_deref().unwrap_or_default(), block.text.as_str()))
        .collect();
    assert_eq!(
        blocks,
        [
            ("", "Food | For"),
            ("Food | For", "seeds | robins and wrens"),
            ("Food | For", "mice voles | owls"),
            ("", "After."),
            ("", "One."),
            ("", "Two."),
            ("", "Right."),
            ("", "a | b"),
        ]
    );
}

#[test]
fn a_heading_ends_before_what_is_never_in_one() {
    let long = "word ".repeat(60);
    let long = long.trim_end();
    let page = format!("<h1>A<div>b</div></h1><p>One.<h2>Two<p>Three.</p>four</h2><h2>{long}</h2><p>Five.");
    let cut = &long[..MAX_HEADING_BYTES];
    let below = format!("A b > {cut}");
    check_blocks(
        &parse(&page, &ParseLimits::default()).unwrap(),
        &[
            ("A b", "One."),
            ("A b > Two", "Three."),
            ("A b > Two", "four"),
            (&below, long),
            (&below, "Five."),
        ],
    );
}

#[test]
fn a_paragraph_of_code_is_a_listing() {
    let page = "<p>Write:</p><div><p><code>\n AuthType\n Basic<br>\n <strong>Require</strong> valid-user<br />\n</code></p></div>\
        <p>Use <code>one</code>.</p><ul><li><p><code>two</code></p></ul><p><br></p>";
    let parsed = parse(page, &ParseLimits::default()).unwrap();
    let blocks: Vec<_> = parsed
        .blocks
        .iter()
        .map(|block| (block.kind, block.text.as_str()))
        .collect();
    assert_eq!(
        blocks,
        [
            (BlockKind::Prose, "Write:"),
            (BlockKind::Listing, "AuthType Basic\nRequire valid-user"),
            (BlockKind::Prose, "Use one."),
            (BlockKind::Prose, "two"),
        ]
    );
}

#[test]
fn a_description_has_its_term() {
    let page = "<p>Before.<dl><dt>--a<dt><p>--all</p><dd><p>All.<p>Each.\
        <dl class=field-list><dt>Fields<dd>owl</dl>\
        <dl><dt>inner<dd>Deep.</dl><p>Still.\
        <dt hidden>no<dt>--none<dd>None.</dl><dl class=toc><dt>no</dl><p>After.";
    check_terms(
        &parse(page, &ParseLimits::default()).unwrap(),
        &[
            ("", "Before."),
            ("--a", "--a"),
            ("--all", "--all"),
            ("--all", "All."),
            ("--all", "Each."),
            ("--all", "Fields: owl"),
            ("inner", "inner"),
            ("inner", "Deep."),
            ("--all", "Still."),
            ("--none", "--none"),
            ("--none", "None."),
            ("", "After."),
        ],
    );
    let long = format!("<dl><dt>short<dd>One.<dt>{}<dd>Two.</dl>", "x".repeat(161));
    let parsed = parse(&long, &ParseLimits::default()).unwrap();
    assert_eq!(parsed.blocks[3].term, None, "a long term is not kept");
}

#[test]
fn the_main_part_is_read_and_nothing_around_it() {
    let text = "The hoopoe has a crown of feathers. ".repeat(8);
    let page = format!(
        "<title>Birds</title><header><h1>The site</h1>Log in</header><div class=sidebar>Chapters</div>\
         <div><main><h1>Birds <button>Copy</button></h1><p>{text}</p></main><p>Related pages</p></div>\
         <footer>© 2026</footer>"
    );
    let parsed = parse(&page, &ParseLimits::default()).unwrap();
    assert_eq!(parsed.title.as_deref(), Some("Birds"));
    check_blocks(&parsed, &[("Birds", text.trim())]);
    let with_contents = parse(
        "<body class=toc><p>Before.<div class=toc>1. Owls</div>",
        &ParseLimits::default(),
    );
    check_blocks(&with_contents.unwrap(), &[("", "Before.")]);
    let short = parse(
        "<p>Before.<main>Main.</main><p>After.<footer>No</footer>",
        &ParseLimits::default(),
    )
    .unwrap();
    check_blocks(&short, &[("", "Before."), ("", "Main."), ("", "After.")]);
}

#[test]
fn hostile_pages_return_soon() {
    let limits = ParseLimits::default();
    let pieces = [
        "<div>",
        "<b>",
        "<p>",
        "<li>",
        "<td>",
        "<table>",
        "<a href=x>",
        "<svg>",
        "<x",
        "</p>",
        "&lt",
        "<dl>",
        "<table><tr><td><p>",
        "<table><tr><th>a<tr><td>b",
        "<tr><td>x",
        "<dt>x",
        "<dl><dt>x<dd>",
        "<dl class=field-list><dt>",
        "<ul><li><a>x",
        "<div class=fragment><div>x",
        "<div class=memproto><br>",
        "<div class=summary-table><div class=col-last>x",
        "<a rel=next>",
        "<!--",
    ];
    check_returns_soon(parse, &pieces);
    check_returns_soon(
        |text, limits| parse(&format!("<div class=fragment>{text}"), limits),
        &["<b></b> ", "<!-- --> "],
    );
    check_returns_soon(
        |text, limits| parse(&format!("{text}<h1>x"), limits),
        &["<ul><li><a>x</a></ul>", "<p><a>x</a>", "<table><tr><td>"],
    );
    check_returns_soon(
        |text, limits| parse(&format!("<table><tr>{text}"), limits),
        &["<td>                                                       "],
    );
    let formatting: String = (0..400).map(|n| format!("<b id={n}>")).collect();
    let formatting = format!("<p>{formatting}");
    let many_attributes: String = (0..200_000).map(|number| format!("a{number} ")).collect();
    let cases = [
        ("<div>".repeat(100_000), "too_deep"),
        ("<div></x>".repeat(100_000), "too_deep"),
        ("<div></body><!-- -->".repeat(100_000), "too_deep"),
        (formatting + &"<p>x".repeat(100_000), "too_many_nodes"),
        (format!("<p {}>x", many_attributes), "too_many_attributes"),
    ];
    for (page, code) in cases {
        let start = Instant::now();
        assert_eq!(parse(&page, &limits).unwrap_err().code(), code);
        println!("{code} after {:?}", start.elapsed());
    }
}

#[test]
fn a_long_flat_page_is_not_deep() {
    let page = "<p>one<ul><li>two<li>three</ul><br><script>'<div>'.repeat(9)</script>".repeat(2_000);
    assert!(parse(&page, &ParseLimits::default()).is_ok());
}
