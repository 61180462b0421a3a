//! Images, and PDF pages that are images: their text is read with tesseract.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ragwire_rag::DocumentKind;
use ragwire_server::extract::{Extractor, OcrError};
use ragwire_server::settings::Settings;
use ragwire_server::settings::languages::Languages;

use crate::support::{Running, WHOLE, start};

/// A picture of 1100 x 420 pixels with two paragraphs.
const SCAN: &[u8] = include_bytes!("scans/lighthouse.png");
const QUESTION: &str = "Who keeps the lighthouse of Tarrafal?";
const KEEPER: &str = "Amelia Duarte";
const ROBIN: &str = "BT /F 12 Tf 72 700 Td (A robin sings in the morning.) Tj ET";

fn english(settings: &mut Settings) {
    settings.ocr = Languages(Some("eng".into()));
}

/// The compressed pixels of the scan, as PNG has them and PDF takes them.
fn pixels() -> Vec<u8> {
    let mut rest = &SCAN[8..];
    let mut pixels = Vec::new();
    while let [a, b, c, d, kind @ ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        if kind.starts_with(b"IDAT") {
            pixels.extend_from_slice(&kind[4..4 + length]);
        }
        rest = &rest[12 + length..];
    }
    pixels
}

/// A PDF with a page for each content stream. `/I Do` draws the scan.
fn pdf(size: &str, contents: &[&str]) -> Vec<u8> {
    let image = pixels();
    let mut objects: Vec<Vec<u8>> = vec![
        b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
        Vec::new(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_vec(),
        [
            format!(
                "<</Type/XObject/Subtype/Image/Width 1100/Height 420/ColorSpace/DeviceGray/BitsPerComponent 1\
                 /Filter/FlateDecode/DecodeParms<</Predictor 15/Colors 1/BitsPerComponent 1/Columns 1100>>\
                 /Length {}>>stream\n",
                image.len()
            )
            .as_bytes(),
            &image,
            b"\nendstream",
        ]
        .concat(),
    ];
    let mut kids = String::new();
    for content in contents {
        let number = objects.len() + 1;
        kids.push_str(&format!("{number} 0 R "));
        objects.push(
            format!(
                "<</Type/Page/Parent 2 0 R/MediaBox[0 0 {size}]/Contents {} 0 R\
                 /Resources<</Font<</F 3 0 R>>/XObject<</I 4 0 R>>>>>>",
                number + 1
            )
            .into(),
        );
        let length = content.len();
        objects.push(format!("<</Length {length}>>stream\n{content}\nendstream").into());
    }
    objects[1] = format!("<</Type/Pages/Count {}/Kids[{kids}]>>", contents.len()).into();
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (number, object) in (1..).zip(&objects) {
        table.push_str(&format!("{:010} 00000 n \n", file.len()));
        file.extend_from_slice(format!("{number} 0 obj\n").as_bytes());
        file.extend_from_slice(object);
        file.extend_from_slice(b"\nendobj\n");
    }
    let end = format!(
        "{table}trailer\n<</Size {}/Root 1 0 R>>\nstartxref\n{}\n%%EOF\n",
        objects.len() + 1,
        file.len()
    );
    file.extend_from_slice(end.as_bytes());
    file
}

const DRAW: &str = "q 550 0 0 210 30 500 cm /I Do Q";

/// Uploads a file, and returns the kind of its document, and for each passage its page and text.
async fn read(server: &Running, name: &str, bytes: Vec<u8>) -> (DocumentKind, Vec<(Option<u32>, String)>) {
    let reply = server.upload(name, bytes).await;
    assert_eq!(reply.status, 201, "{name}: {:?}", reply.body);
    let id = reply.json()["documents"][0]["id"].as_str().unwrap().to_owned();
    let library = server.app.library().unwrap();
    let document = library
        .list()
        .into_iter()
        .find(|document| document.id == id)
        .unwrap();
    let passages = library.passages(&id).unwrap().unwrap();
    let passages = passages.into_iter().map(|passage| (passage.page, passage.text));
    (document.kind, passages.collect())
}

#[tokio::test]
async fn images_and_scanned_pages_are_read() {
    let server = start(english).await;
    let (kind, passages) = read(&server, "keeper.png", SCAN.to_vec()).await;
    assert_eq!(kind, DocumentKind::Image);
    assert!(
        passages[0].0.is_none() && passages[0].1.contains(KEEPER),
        "{passages:?}"
    );
    let answer = server.ask(WHOLE, QUESTION).await.json()["answer"].to_string();
    assert!(answer.contains(KEEPER), "{answer}");

    // Only images; the second page is empty.
    let (kind, passages) = read(&server, "scan.pdf", pdf("612 792", &[DRAW, "", DRAW])).await;
    assert_eq!(kind, DocumentKind::Pdf);
    let pages: Vec<_> = passages.iter().map(|(page, _)| page.unwrap()).collect();
    assert_eq!(
        (pages.first(), pages.last()),
        (Some(&1), Some(&3)),
        "{passages:?}"
    );
    assert!(
        passages.iter().all(|(_, text)| text.contains("lighthouse")),
        "{passages:?}"
    );

    // An image between two pages of text.
    let (_, passages) = read(&server, "mixed.pdf", pdf("612 792", &[ROBIN, DRAW, ROBIN])).await;
    let text = |page: u32| {
        let of_page = passages.iter().filter(|(one, _)| *one == Some(page));
        of_page.map(|(_, text)| text.as_str()).collect::<String>()
    };
    let all = passages.iter().map(|(_, text)| text.as_str()).collect::<String>();
    assert!(text(1).contains("robin"), "{passages:?}");
    let (robin, keeper) = (all.find("robin").unwrap(), all.find(KEEPER).unwrap());
    assert!(
        robin < keeper && keeper < all.rfind("robin").unwrap(),
        "{passages:?}"
    );
}

#[tokio::test]
async fn images_are_refused_where_nothing_reads_them() {
    let server = start(|_| {}).await;
    let reply = server.upload("keeper.png", SCAN.to_vec()).await;
    assert_eq!(reply.code(), "unsupported_type");
    let reply = server.upload("scan.pdf", pdf("612 792", &[DRAW])).await;
    assert_eq!(reply.code(), "empty_document");
}

#[tokio::test]
async fn hostile_images_are_refused_and_the_server_continues() {
    let server = start(english).await;
    let mut bomb = SCAN.to_vec();
    // A hundred thousand pixels wide and high.
    bomb[16..24].copy_from_slice(&[0, 1, 0x86, 0xa0, 0, 1, 0x86, 0xa0]);
    let cases: [(&str, Vec<u8>, &str); 4] = [
        ("bomb.png", bomb, "unsupported_type"),
        ("cut.png", SCAN[..40].to_vec(), "unsupported_type"),
        ("blank.pdf", pdf("612 792", &[""]), "empty_document"),
        ("huge.pdf", pdf("14400 14400", &[""]), "empty_document"),
    ];
    for (name, bytes, code) in cases {
        let started = Instant::now();
        assert_eq!(server.upload(name, bytes).await.code(), code, "{name}");
        assert!(started.elapsed() < Duration::from_secs(30), "{name}");
    }
    let (_, passages) = read(&server, "keeper.png", SCAN.to_vec()).await;
    assert!(passages[0].1.contains(KEEPER));
}

#[tokio::test]
async fn a_missing_language_is_named_at_the_start() {
    let check = async |languages: &str| {
        let settings = Settings {
            ocr: languages.parse().unwrap(),
            ..Settings::default()
        };
        let program = PathBuf::from(env!("CARGO_BIN_EXE_ragwire-server"));
        Extractor::new(program, &settings).check().await
    };
    check("eng").await.unwrap();
    let error = check("eng+tlh").await.unwrap_err();
    assert!(
        matches!(&error, OcrError::Language { language, .. } if language == "tlh"),
        "{error}"
    );
    assert!(error.to_string().contains("it has eng"), "{error}");
}
