//! Reads the text of images, and of PDF pages that are images, with the programs `tesseract` and
//! `pdftoppm`.
//!
//! Both read files of strangers, so they run like our own parser: in a process of their own, without
//! the environment, with limits on time, memory and output. They get everything through pipes.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use ragwire_rag::{DocumentKind, Parsed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::Instant;

use super::{ExtractError, ExtractErrorKind, Extractor};

const TESSERACT: &str = "tesseract";
const PDFTOPPM: &str = "pdftoppm";
/// Pages of one document that are read this way; a page takes one to three seconds of a core.
const MAX_PAGES: u32 = 200;
/// After this time no further page is read, so that a few documents cannot keep all processes for hours.
const DOCUMENT_TIME: Duration = Duration::from_secs(600);
/// How long reading one image, or drawing one page, may take.
const PAGE_TIME: Duration = Duration::from_secs(60);
/// The longer side of a drawn page, in pixels: A4 at 300 dots per inch, for which tesseract is made.
/// It bounds what a page of any size costs.
const PAGE_PIXELS: &str = "3500";
/// A drawn page has a byte for each pixel.
const MAX_DRAWN_BYTES: u64 = 16 << 20;
/// The text of a page, ten times that of a full one. All pages together have less than the parser's limit.
const MAX_TEXT_BYTES: u64 = 64 << 10;
/// Variables that the programs need: where they are, and where the languages are.
const VARIABLES: [&str; 2] = ["PATH", "TESSDATA_PREFIX"];
/// The first bytes of the images that tesseract reads: PNG, JPEG, GIF, TIFF in both byte orders, and BMP.
const IMAGES: [&[u8]; 6] = [
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
    b"GIF8",
    b"II*\0",
    b"MM\0*",
    b"BM",
];
/// The extensions of their files.
pub(crate) const EXTENSIONS: [&str; 8] = ["png", "jpg", "jpeg", "gif", "tif", "tiff", "bmp", "webp"];

/// Why images cannot be read on this machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OcrError {
    /// A program is missing.
    #[error(
        "--ocr needs the program {program}: {source}; install it, on Debian with `apt install {package}`"
    )]
    Program {
        /// The program.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
        /// Why it cannot be run.
        source: std::io::Error,
    },
    /// A language is missing.
    #[error("--ocr: tesseract does not have the language `{language}`; it has {known}")]
    Language {
        /// The language that was asked for.
        language: String,
        /// The installed ones.
        known: String,
    },
}

/// Reads images in these languages, as tesseract names them: `deu+eng`.
#[derive(Clone, Debug)]
pub(super) struct Ocr {
    languages: String,
}

impl Ocr {
    pub(super) fn new(languages: &str) -> Self {
        Self {
            languages: languages.to_owned(),
        }
    }

    /// Checks that the programs and the languages are installed.
    pub(super) async fn check(&self) -> Result<(), OcrError> {
        let missing = |program, package| {
            move |source| OcrError::Program {
                program,
                package,
                source,
            }
        };
        let listed = Command::new(TESSERACT).arg("--list-langs").output().await;
        let listed = listed.map_err(missing(TESSERACT, "tesseract-ocr"))?;
        let drawn = Command::new(PDFTOPPM).arg("-v").output().await;
        drawn.map_err(missing(PDFTOPPM, "poppler-utils"))?;
        let listed = String::from_utf8_lossy(&listed.stdout);
        // The first line is a title.
        let known: Vec<&str> = listed.lines().skip(1).map(str::trim).collect();
        match self
            .languages
            .split('+')
            .find(|language| !known.contains(language))
        {
            None => Ok(()),
            Some(language) => Err(OcrError::Language {
                language: language.to_owned(),
                known: known.join(", "),
            }),
        }
    }
}

/// Returns whether a file is an image that tesseract reads.
fn is_image(bytes: &[u8]) -> bool {
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    is_webp || IMAGES.iter().any(|image| bytes.starts_with(image))
}

/// Returns the first pages without text.
fn empty_pages(parsed: &Parsed) -> Vec<u32> {
    let with_text: HashSet<u32> = parsed.blocks.iter().filter_map(|block| block.page).collect();
    (1..=parsed.pages.unwrap_or_default())
        .filter(|page| !with_text.contains(page))
        .take(MAX_PAGES as usize)
        .collect()
}

impl Extractor {
    /// Adds to what was read of a document the text of its images. Without any, returns what it got.
    pub(super) async fn with_images(
        &self,
        ocr: &Ocr,
        bytes: &Bytes,
        read: Result<Parsed, ExtractError>,
    ) -> Result<Parsed, ExtractError> {
        let end = Instant::now() + DOCUMENT_TIME;
        match read {
            Err(error) if error.kind == ExtractErrorKind::Unsupported && is_image(bytes) => {
                let mut parsed = self.image(ocr, bytes).await.ok_or(error)?;
                parsed.kind = DocumentKind::Image;
                Ok(parsed)
            }
            // A PDF without text has no pages to count. Drawing one behind the last fails.
            Err(error) if error.kind == ExtractErrorKind::Unreadable && bytes.starts_with(b"%PDF-") => {
                let mut whole: Option<Parsed> = None;
                let mut pages = 0;
                while pages < MAX_PAGES
                    && Instant::now() < end
                    && let Some(drawn) = self.drawn(bytes, pages + 1).await
                {
                    pages += 1;
                    let Some(mut read) = self.page(ocr, &drawn, pages).await else {
                        continue;
                    };
                    match &mut whole {
                        Some(whole) => whole.blocks.append(&mut read.blocks),
                        None => whole = Some(read),
                    }
                }
                let mut whole = whole.ok_or(error)?;
                (whole.kind, whole.pages) = (DocumentKind::Pdf, Some(pages));
                Ok(whole)
            }
            Ok(mut parsed) if parsed.kind == DocumentKind::Pdf => {
                for page in empty_pages(&parsed) {
                    if Instant::now() < end
                        && let Some(drawn) = self.drawn(bytes, page).await
                        && let Some(mut read) = self.page(ocr, &drawn, page).await
                    {
                        parsed.blocks.append(&mut read.blocks);
                        parsed.unread_pages.retain(|unread| *unread != page);
                    }
                }
                // Stable: the blocks of a page stay in their order.
                parsed.blocks.sort_by_key(|block| block.page);
                Ok(parsed)
            }
            other => other,
        }
    }

    /// Draws a page of a PDF in grey. `None` if it cannot be drawn, or does not exist.
    async fn drawn(&self, pdf: &[u8], page: u32) -> Option<Vec<u8>> {
        let page = page.to_string();
        let arguments = ["-gray", "-scale-to", PAGE_PIXELS, "-f", &page, "-l", &page, "-"];
        self.run(PDFTOPPM, &arguments, pdf, MAX_DRAWN_BYTES).await
    }

    /// Reads an image. `None` if it cannot be read, or has no text.
    async fn image(&self, ocr: &Ocr, image: &[u8]) -> Option<Parsed> {
        let arguments = ["-", "-", "-l", &ocr.languages];
        let text = self.run(TESSERACT, &arguments, image, MAX_TEXT_BYTES).await?;
        // Finds the paragraphs.
        let text = Bytes::from(text);
        let reading = self.extract_in_time("page.txt", &text);
        tokio::time::timeout(self.time, reading).await.ok()?.ok()
    }

    /// Reads the image of a page.
    async fn page(&self, ocr: &Ocr, image: &[u8], page: u32) -> Option<Parsed> {
        let mut read = self.image(ocr, image).await?;
        for block in &mut read.blocks {
            block.page = Some(page);
        }
        Some(read)
    }

    /// Runs a program that limits itself first. `None` if it fails, or writes or takes too much.
    async fn run(&self, program: &str, arguments: &[&str], input: &[u8], max_output: u64) -> Option<Vec<u8>> {
        let mut command = self.command();
        command.args(["--", program]).args(arguments);
        command.envs(super::variables(&VARIABLES));
        // Its threads would only wait for each other.
        command.env("OMP_THREAD_LIMIT", "1");
        let ran = async {
            let mut process = command.spawn()?;
            let (Some(mut stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
                unreachable!("both are piped")
            };
            let write = async move {
                // A program that has read enough may close its input.
                let _ = stdin.write_all(input).await;
            };
            let mut output = Vec::new();
            let mut stdout = stdout.take(max_output + 1);
            let ((), read) = tokio::join!(write, stdout.read_to_end(&mut output));
            read?;
            if output.len() as u64 > max_output {
                return Ok(None);
            }
            let status = process.wait().await?;
            std::io::Result::Ok(status.success().then_some(output))
        };
        match tokio::time::timeout(PAGE_TIME, ran).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => {
                tracing::error!(%error, program, "cannot run a program that reads images");
                None
            }
            Err(_) => {
                tracing::warn!(program, "an image took too long to read");
                None
            }
        }
    }
}
