//! Lists of documents that other programs wrote, and of small ones written here.

use super::tests::{document, package, word};
use super::*;
use crate::parse;
use crate::test_data::check_places;

#[test]
fn items_of_documents_that_other_programs_wrote_are_known() {
    for (name, items) in [
        ("birds.docx", &["sunflower seeds"][..]),
        ("birds.odt", &["sunflower seeds", "hemp"]),
    ] {
        let mut parsed = document(name);
        parsed.blocks.retain(|block| block.item.is_some());
        let expected: Vec<_> = items.iter().map(|text| (1, None, *text)).collect();
        check_places(&parsed, &expected);
    }
}

#[test]
fn lists_of_word_have_their_numbers_and_depths() {
    let paragraph = |properties: &str, text: &str| {
        format!("<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>")
    };
    let item = |numbering: u32, level: u32, text: &str| {
        let place = format!(r#"<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{numbering}"/></w:numPr>"#);
        paragraph(&place, text)
    };
    let styled =
        |properties: &str, text: &str| paragraph(&format!(r#"<w:pStyle w:val="Steps2"/>{properties}"#), text);
    let body = [
        item(1, 0, "one"),
        item(1, 1, "inner"),
        item(1, 1, ""),
        paragraph("", "between"),
        item(1, 0, "two"),
        item(1, 1, "inner again"),
        item(2, 0, "seven"),
        item(3, 0, "bullet"),
        styled("", "by its style"),
        styled(r#"<w:numPr><w:numId w:val="0"/></w:numPr>"#, "taken out"),
        item(99, 0, "unknown"),
        format!("<w:tbl><w:tr><w:tc>{}</w:tc></w:tr></w:tbl>", item(1, 0, "cell")),
        paragraph(
            r#"<w:outlineLvl w:val="0"/><w:numPr><w:numId w:val="1"/></w:numPr>"#,
            "Heading",
        ),
        item(1, 0, "behind both"),
    ];
    let level = |level: u32, format: &str, start: u32| {
        format!(r#"<w:lvl w:ilvl="{level}"><w:start w:val="{start}"/><w:numFmt w:val="{format}"/></w:lvl>"#)
    };
    let definition =
        |id: u32, levels: &str| format!(r#"<w:abstractNum w:abstractNumId="{id}">{levels}</w:abstractNum>"#);
    let numbering =
        |id: u32, of: u32| format!(r#"<w:num w:numId="{id}"><w:abstractNumId w:val="{of}"/></w:num>"#);
    let numberings = [
        definition(5, &(level(0, "decimal", 1) + &level(1, "lowerLetter", 1))),
        definition(6, &level(0, "decimal", 7)),
        definition(7, &level(0, "bullet", 1)),
        numbering(1, 5),
        numbering(2, 6),
        numbering(3, 7),
    ];
    let relation = |kind: &str| format!(r#"<Relationship Id="{kind}" Type="x/{kind}" Target="{kind}.xml"/>"#);
    let mut parts = word(&body.concat());
    parts.extend([
        (
            "word/_rels/document.xml.rels",
            format!("<Relationships>{}{}</Relationships>", relation("numbering"), relation("styles")),
        ),
        (
            "word/numbering.xml",
            format!("<w:numbering xmlns:w=\"w\">{}</w:numbering>", numberings.concat()),
        ),
        (
            "word/styles.xml",
            r#"<w:styles xmlns:w="w"><w:style w:styleId="Steps"><w:pPr><w:numPr><w:ilvl w:val="1"/><w:numId w:val="2"/></w:numPr></w:pPr></w:style><w:style w:styleId="Steps2"><w:basedOn w:val="Steps"/></w:style></w:styles>"#
                .to_owned(),
        ),
    ]);
    let parsed = parse("a.docx", &package(&parts), &ParseLimits::default()).unwrap();
    let expected = [
        (1, Some(1), "one"),
        (2, Some(1), "inner"),
        (0, None, "between"),
        (1, Some(2), "two"),
        (2, Some(1), "inner again"),
        (1, Some(7), "seven"),
        (1, None, "bullet"),
        (2, Some(1), "by its style"),
        (0, None, "taken out"),
        (0, None, "unknown"),
        (0, None, "cell"),
        (1, Some(5), "behind both"),
    ];
    check_places(&parsed, &expected);
}

#[test]
fn lists_of_opendocument_have_their_numbers_and_depths() {
    let content = r#"<d><automatic-styles><list-style name="L1"><list-level-style-number level="1" num-format="1"/>
        <list-level-style-bullet level="2"/></list-style><list-style name="L2"><list-level-style-number level="1" num-format=""/>
        </list-style></automatic-styles><body><p>Feed them:</p><list style-name="L1"><list-header><p>Steps</p></list-header>
        <list-item start-value="3"><p>one</p><list><list-item><p>inner</p></list-item></list></list-item><list-item><p>two</p></list-item></list>
        <list style-name="L2"><list-item><p>plain</p></list-item></list><p>After</p></body></d>"#;
    let parts = [
        ("mimetype", "application/vnd.oasis.opendocument.text".to_owned()),
        ("content.xml", content.to_owned()),
    ];
    let parsed = parse("a.odt", &package(&parts), &ParseLimits::default()).unwrap();
    let expected = [
        (0, None, "Feed them:"),
        (0, None, "Steps"),
        (1, Some(3), "one"),
        (2, None, "inner"),
        (1, Some(4), "two"),
        (1, None, "plain"),
        (0, None, "After"),
    ];
    check_places(&parsed, &expected);
}

/// What is on each of some slides: the shapes after the title.
fn slides(shapes: &str) -> Parsed {
    let slide = format!(
        "<sld><sp><ph type=\"title\"/><txBody><p><r><t>Birds</t></r></p></txBody></sp>{shapes}</sld>"
    );
    let parts = [
        (
            "[Content_Types].xml",
            "<Types><Override PartName=\"/ppt/presentation.xml\" ContentType=\"application/vnd.openxmlformats-\
             officedocument.presentationml.presentation.main+xml\"/></Types>"
                .to_owned(),
        ),
        ("_rels/.rels", relation("officeDocument", "ppt/presentation.xml")),
        (
            "ppt/presentation.xml",
            "<p:presentation xmlns:p=\"p\" xmlns:r=\"r\"><p:sldIdLst><p:sldId r:id=\"r1\"/></p:sldIdLst></p:presentation>"
                .to_owned(),
        ),
        ("ppt/_rels/presentation.xml.rels", relation("slide", "slides/slide1.xml")),
        ("ppt/slides/slide1.xml", slide),
    ];
    parse("a.pptx", &package(&parts), &ParseLimits::default()).unwrap()
}

fn relation(kind: &str, target: &str) -> String {
    format!("<Relationships><Relationship Id=\"r1\" Type=\"t/{kind}\" Target=\"{target}\"/></Relationships>")
}

#[test]
fn bullets_of_slides_are_lists() {
    let paragraph = |properties: &str, text: &str| format!("<p>{properties}<r><t>{text}</t></r></p>");
    let shape = |placeholder: &str, paragraphs: &[String]| {
        format!("<sp>{placeholder}<txBody>{}</txBody></sp>", paragraphs.concat())
    };
    let body = shape(
        "<ph idx=\"1\"/>",
        &[
            paragraph("<pPr lvl=\"2\"/>", "robins"),
            paragraph("", "owls"),
            paragraph("", ""),
            paragraph("<pPr lvl=\"1\"/>", "eat mice"),
            paragraph("<pPr><buNone/></pPr>", "All of them sing."),
            paragraph(
                "<pPr><buAutoNum type=\"arabicPeriod\" startAt=\"3\"/></pPr>",
                "Look",
            ),
            paragraph("<pPr lvl=\"1\"><buAutoNum type=\"alphaLcPeriod\"/></pPr>", "up"),
            paragraph("<pPr lvl=\"2\"><buNone/></pPr>", "at dawn"),
            paragraph(
                "<pPr><buAutoNum type=\"arabicPeriod\" startAt=\"3\"/></pPr>",
                "Listen",
            ),
            paragraph(
                "<pPr><buAutoNum type=\"arabicPeriod\" startAt=\"9\"/></pPr>",
                "Go",
            ),
        ],
    );
    let alone = shape("<ph type=\"body\"/>", &[paragraph("", "A sentence alone.")]);
    let subtitle = shape(
        "<ph type=\"subTitle\"/>",
        &[paragraph("", "A guide"), paragraph("", "for all")],
    );
    let plain = format!(
        "<sp><ph idx=\"2\"/><txBody><lstStyle><lvl1pPr><buNone/></lvl1pPr></lstStyle>{}{}</txBody></sp>",
        paragraph("", "Without"),
        paragraph("", "bullets")
    );
    let text_box = shape(
        "",
        &[
            paragraph("", "In a box"),
            paragraph("<pPr><buChar char=\"•\"/></pPr>", "with a bullet"),
        ],
    );
    let deep = |properties: &str, text: &str| paragraph(&format!("<pPr lvl=\"1\">{properties}</pPr>"), text);
    let number = "<buAutoNum type=\"arabicParenR\"/>";
    let field = "<p><pPr lvl=\"1\"><buChar char=\"-\"/></pPr><fld><pPr/><t>c</t></fld></p>".to_owned();
    let deep = shape("", &[deep(number, "a"), deep(number, "b"), field]);
    check_places(
        &slides(&[body, alone, subtitle, plain, text_box, deep].concat()),
        &[
            (1, None, "robins"),
            (1, None, "owls"),
            (2, None, "eat mice"),
            (0, None, "All of them sing."),
            (1, Some(3), "Look"),
            (2, None, "up"),
            (0, None, "at dawn"),
            (1, Some(4), "Listen"),
            (1, Some(9), "Go"),
            (0, None, "A sentence alone."),
            (0, None, "A guide"),
            (0, None, "for all"),
            (0, None, "Without"),
            (0, None, "bullets"),
            (0, None, "In a box"),
            (1, None, "with a bullet"),
            (1, Some(1), "a"),
            (1, Some(2), "b"),
            (1, None, "c"),
        ],
    );
}

#[test]
fn lists_of_opendocument_slides_have_their_numbers_and_depths() {
    let content = r#"<d><automatic-styles><list-style name="L1"><list-level-style-number level="1" num-format="1"/>
        <list-level-style-bullet level="2"/></list-style></automatic-styles><body><presentation><page>
        <frame class="outline"><text-box><list style-name="L1"><list-item><p>Look</p><p>often</p>
        <list><list-item><p/></list-item><list-item><p>up</p></list-item></list></list-item>
        <list-item start-value="7"><p>Listen</p></list-item></list><p>They come.</p></text-box></frame></page></presentation></body></d>"#;
    let kind = "application/vnd.oasis.opendocument.presentation";
    let parts = [("mimetype", kind.to_owned()), ("content.xml", content.to_owned())];
    let parsed = parse("a.odp", &package(&parts), &ParseLimits::default()).unwrap();
    check_places(
        &parsed,
        &[
            (1, Some(1), "Look"),
            (0, None, "often"),
            (2, None, "up"),
            (1, Some(7), "Listen"),
            (0, None, "They come."),
        ],
    );
}
