//! Tests of models that cannot be loaded: each error has a code.

use std::fs;

use ragwire_rag::models::llama::{
    Cells, LlamaEngine, LlamaFile, LlamaOptions, LoadError, MAX_PREFIXES, MAX_SLOTS, MAX_STEP_TOKENS,
    MAX_WAITING,
};
use ragwire_test_support::tiny_llama::TinyLlama;

use crate::llama::models::{load, model, options, path, text, within, written};

async fn error(options: LlamaOptions) -> LoadError {
    within(LlamaEngine::load(options)).await.expect_err("it loads")
}

async fn code(options: LlamaOptions) -> &'static str {
    error(options).await.code()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_not_models_are_rejected() {
    assert_eq!(code(options(&path("nothing.gguf"))).await, "model_missing");
    assert_eq!(code(options(&std::env::temp_dir())).await, "model_unreadable");
    for (name, bytes) in [
        ("empty.gguf", &b""[..]),
        ("short.gguf", b"GG"),
        ("text.gguf", b"this is a text, not a model"),
    ] {
        fs::write(path(name), bytes).unwrap();
        assert_eq!(code(options(&path(name))).await, "model_not_gguf", "{name}");
    }
    assert_eq!(code(options(std::path::Path::new("a\0b"))).await, "model_options");
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_files_are_rejected() {
    let whole = fs::read(model()).unwrap();
    let cut = path("cut.gguf");
    for eighth in 0..8 {
        fs::write(&cut, &whole[..4 + (whole.len() - 4) * eighth / 8]).unwrap();
        let code = code(options(&cut)).await;
        assert!(
            ["model_damaged", "model_refused"].contains(&code),
            "{eighth}: {code}"
        );
    }
    // A header of random bytes.
    let mut noise = b"GGUF".to_vec();
    noise.extend((0..4_096_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8));
    fs::write(&cut, noise).unwrap();
    assert_eq!(code(options(&cut)).await, "model_damaged");
}

#[tokio::test(flavor = "multi_thread")]
async fn models_of_another_kind_are_rejected() {
    let with = |name: &str, change: fn(&mut TinyLlama)| {
        let mut model = TinyLlama::default();
        change(&mut model);
        options(&written(name, &model))
    };
    let wrong = error(with("bert.gguf", |model| model.architecture = "bert".to_owned())).await;
    assert_eq!(wrong.to_string(), "architecture bert does not support chat");
    assert_eq!(wrong.code(), "model_wrong_kind");
    assert_eq!(
        code(with("new.gguf", |model| model.architecture = "nonesuch".to_owned())).await,
        "model_refused"
    );
    assert_eq!(
        code(with("mute.gguf", |model| model.tokenizer = None)).await,
        "model_no_tokenizer"
    );
    assert_eq!(
        code(with("none.gguf", |model| model.tokenizer = Some("none".to_owned()))).await,
        "model_no_tokenizer"
    );
    assert_eq!(
        code(with("bytes.gguf", |model| model.has_bytes = false)).await,
        "model_vocabulary"
    );
    assert_eq!(
        code(with("odd.gguf", |model| model.template = Some("{{ odd }}".to_owned()))).await,
        "model_template"
    );
    assert_eq!(
        code(options(model()).template("{{ odd }}")).await,
        "model_template"
    );
    assert_eq!(code(options(model()).template("a\0b")).await, "model_template");
}

#[tokio::test(flavor = "multi_thread")]
async fn models_that_do_not_fit_into_memory_are_rejected() {
    let limited = |bytes, cells| {
        let mut options = options(model()).cells(cells);
        options.file = LlamaFile::new(model()).threads(1).memory_limit(bytes);
        options
    };
    assert_eq!(code(limited(1_000, 2_048)).await, "model_too_big");
    // The weights fit, but 64 Mi cells in addition do not.
    let bytes = fs::metadata(model()).unwrap().len();
    let LoadError::TooBig { needed, available } = error(limited(2 * bytes, 64 << 20)).await else {
        panic!("unexpected error");
    };
    assert!(
        needed > available && available == 2 * bytes,
        "{needed} of {available}"
    );
    // Neither do a hundred terabytes of cells, even without a limit.
    let mut options = options(model()).cells(i32::MAX as u32);
    options.slots = 1;
    assert_eq!(code(options).await, "model_too_big");
    let engine = load(limited(64 << 20, 2_048)).await;
    assert!(
        !text(&engine, ragwire_rag::models::Prompt::user("?").max_tokens(4))
            .await
            .is_empty()
    );
}

/// Checks the README's formula for the size of a cell in each of its types.
#[tokio::test(flavor = "multi_thread")]
async fn cells_have_the_documented_size() {
    const CELLS: u64 = 64 << 20;
    // Layers, heads of keys and values, width of a head.
    let usual = TinyLlama::default();
    let wide = TinyLlama {
        layers: 3,
        width: 64,
        heads: 4,
        kv_heads: 2,
        head_width: Some(32),
        ..TinyLlama::default()
    };
    for (name, model, numbers) in [("usual", usual, 2 * 22), ("wide", wide, 3 * 2 * 32)] {
        let path = written(&format!("cells-{name}.gguf"), &model);
        let needed = async |kind, cells: u64| {
            let mut options = options(&path)
                .cells(u32::try_from(cells).unwrap())
                .cell_kind(kind);
            options.file = LlamaFile::new(&path)
                .threads(1)
                .memory_limit(fs::metadata(&path).unwrap().len());
            match error(options).await {
                LoadError::TooBig { needed, .. } => needed,
                other => panic!("{other}"),
            }
        };
        for (kind, sixteenths) in [(Cells::F32, 64), (Cells::F16, 32), (Cells::Q8, 17)] {
            let cells = needed(kind, 2 * CELLS).await - needed(kind, CELLS).await;
            assert_eq!(cells, CELLS * numbers * 2 * sixteenths / 16, "{name} {kind:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_out_of_range_are_rejected() {
    let options = || options(model());
    let threads = |threads| {
        let mut options = options();
        options.file.threads = threads;
        options
    };
    let bad = [
        options().slots(0),
        options().slots(MAX_SLOTS + 1),
        options().slots(u32::MAX),
        options().waiting(MAX_WAITING + 1),
        options().prefixes(MAX_PREFIXES + 1),
        options().step_tokens(0),
        options().slots(4).step_tokens(4),
        options().step_tokens(MAX_STEP_TOKENS + 1),
        options().slice_tokens(0),
        options().context_tokens(0),
        options().context_tokens(1),
        options().context_tokens(5_000),
        options().cells(2_047),
        options().cells(u32::MAX),
        options().context_tokens(4).cells(4).slots(4),
        threads(0),
        threads(513),
    ];
    for options in bad {
        let shown = format!("{options:?}");
        assert_eq!(code(options).await, "model_options", "{shown}");
    }
    let mut devices = options();
    devices.file.devices = vec![1_000];
    assert_eq!(code(devices).await, "model_options");
}
