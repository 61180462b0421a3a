//! What operators and users hand over as files: settings and documents.

use ragwire_rag::{ParseLimits, parse};
use ragwire_server::settings::{Options, Settings};

/// The extensions of the formats, with one kind of code. PDFs are left out: their reader panics on
/// damaged files, which the server catches. The inputs of the corpus have their indices.
const EXTENSIONS: [&str; 19] = [
    "md", "txt", "html", "rst", "adoc", "docx", "pptx", "xlsx", "epub", "rtf", "csv", "tsv", "json", "jsonl",
    "ipynb", "rs", "odt", "odp", "ods",
];
/// What no output may contain. A secret of an input begins with it.
const SECRET: &str = "s3cret";

/// Reads the bytes as a settings file, and checks what they say.
///
/// # Panics
///
/// If a secret is printed.
pub fn settings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(options) = toml::from_str::<Options>(text) else {
        return;
    };
    let settings = Settings::from(options);
    let names_a_secret = [
        &settings.llm_key,
        &settings.embedder_key,
        &settings.qdrant_api_key,
    ]
    .into_iter()
    .any(|key| key.0.as_deref().is_some_and(|key| key.starts_with(SECRET)));
    let error = settings.check().err().map(|error| error.to_string());
    if names_a_secret && text.matches(SECRET).count() == 1 {
        let printed = format!("{settings:?}{error:?}");
        assert!(!printed.contains(SECRET), "{printed}");
    }
}

/// Reads the bytes as a document. The first byte is its format, the rest is the file.
///
/// # Panics
///
/// If the text exceeds a limit, or has a control character that separates frames.
pub fn document(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else {
        return;
    };
    // Formats are also known by their first bytes.
    if bytes.windows(5).any(|window| window == b"%PDF-") {
        return;
    }
    let mut limits = ParseLimits::default();
    limits.max_text_bytes = 64 << 10;
    limits.max_blocks = 1_000;
    limits.max_html_nodes = 10_000;
    limits.max_xml_nodes = 100_000;
    limits.max_inflated_bytes = 1 << 20;
    let name = format!("file.{}", EXTENSIONS[usize::from(*kind) % EXTENSIONS.len()]);
    let Ok(parsed) = parse(&name, bytes, &limits) else {
        return;
    };
    assert!(
        parsed.blocks.len() <= limits.max_blocks,
        "{}",
        parsed.blocks.len()
    );
    let text: usize = parsed.blocks.iter().map(|block| block.text.len()).sum();
    // A block may cross the limit.
    assert!(text <= 2 * limits.max_text_bytes, "{text}");
    for block in &parsed.blocks {
        let separates = |c: char| matches!(c, '\u{1d}' | '\u{1e}');
        assert!(!block.text.contains(separates), "{:?}", block.text);
    }
}
