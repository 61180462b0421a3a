//! Every mistake is reported at startup with a remedy, and leaves nothing behind.

use std::fs;
use std::path::Path;

use ragwire_server::settings::Settings;
use ragwire_server::settings::engines::Label;
use ragwire_server::settings::values::{Count, CountOrZero};
use ragwire_test_support::tiny_bert::{Pooling, TinyBert};
use ragwire_test_support::tiny_llama::CHATML;

use crate::models::{bert, embedder, library, model, path, ranker, settings, start, within, writer, written};

/// The error at startup, without the path of the test's folder.
async fn told(change: impl FnOnce(&mut Settings)) -> (String, &'static str) {
    let (settings, _folder) = settings(change);
    let error = start(&settings, &library()).await.expect_err("it starts");
    let folder = path("").display().to_string();
    (error.to_string().replace(&folder, ""), error.code())
}

const KINDS: &str = "; --llm needs a chat model, --embedder an embedding model, --reranker a cross-encoder";

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_not_models() {
    let missing =
        "the file does not exist; name a GGUF file, or hf:owner/repo/file.gguf on the Hugging Face hub";
    let nowhere = || model(&path("nowhere.gguf"));
    type Change<'a> = &'a dyn Fn(&mut Settings);
    let cases: [(&str, Change<'_>); 3] = [
        ("llm", &|settings| settings.llm = nowhere()),
        ("embedder", &|settings| settings.embedder = nowhere()),
        ("reranker", &|settings| settings.reranker = nowhere()),
    ];
    for (setting, change) in cases {
        let words = format!("--{setting} nowhere.gguf: {missing}");
        assert_eq!(told(change).await, (words, "model_missing"));
    }

    fs::create_dir(path("folder.gguf")).unwrap();
    let error = told(|settings| settings.llm = model(&path("folder.gguf"))).await;
    let words = "--llm folder.gguf: the model file cannot be read: Is a directory (os error 21)";
    #[cfg(target_os = "linux")]
    assert_eq!(error, (words.to_owned(), "model_unreadable"));

    fs::write(path("text.gguf"), "once upon a time").unwrap();
    let words = "--embedder text.gguf: the model file is not gguf; convert other formats with convert_hf_to_gguf.py of llama.cpp";
    let error = told(|settings| settings.embedder = model(&path("text.gguf"))).await;
    assert_eq!(error, (words.to_owned(), "model_not_gguf"));

    let whole = fs::read(writer()).unwrap();
    fs::write(path("header.gguf"), &whole[..100]).unwrap();
    let words = "--llm header.gguf: the header of the model file is damaged; download it again";
    let error = told(|settings| settings.llm = model(&path("header.gguf"))).await;
    assert_eq!(error, (words.to_owned(), "model_damaged"));

    fs::write(path("half.gguf"), &whole[..whole.len() - 1_000]).unwrap();
    let words = "--llm half.gguf: llama.cpp refused the model (architecture llama); the file is incomplete or newer than this build; \
                 RUST_LOG=llama-cpp-2=info logs details";
    let error = told(|settings| settings.llm = model(&path("half.gguf"))).await;
    assert_eq!(error, (words.to_owned(), "model_refused"));
}

#[tokio::test(flavor = "multi_thread")]
async fn models_of_another_kind() {
    let error = told(|settings| settings.llm = model(embedder())).await;
    let words = format!("--llm embedder.gguf: architecture bert does not support chat{KINDS}");
    assert_eq!(error, (words, "model_wrong_kind"));

    let error = told(|settings| settings.embedder = model(ranker())).await;
    let words = "--embedder ranker.gguf: architecture bert does not support embedding, only ranking";
    assert_eq!(error, (format!("{words}{KINDS}"), "model_wrong_kind"));

    let error = told(|settings| settings.embedder = model(writer())).await;
    let words = format!("--embedder writer.gguf: the model does not pool its vectors{KINDS}");
    assert_eq!(error, (words, "model_no_pooling"));

    let error = told(|settings| settings.reranker = model(embedder())).await;
    let words = format!("--reranker embedder.gguf: the model is not a reranker{KINDS}");
    assert_eq!(error, (words, "model_no_ranker"));

    let mute = written("mute.gguf", |model| model.tokenizer = None);
    let error = told(|settings| settings.llm = model(&mute)).await;
    let words = "--llm mute.gguf: the model file has no tokenizer";
    assert_eq!(error, (words.to_owned(), "model_no_tokenizer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_the_model_does_not_support() {
    let see = "see --llm-context, --llm-slots and --llm-threads";
    for (change, words) in [
        (
            (|settings| settings.llm_context = CountOrZero(5_000)) as fn(&mut Settings),
            "context_tokens must be 2 to 4096",
        ),
        (|settings| settings.llm_slots = Count(65), "slots must be 1 to 64"),
    ] {
        let error = told(|settings| {
            settings.llm = model(writer());
            change(settings);
        });
        let words = format!("--llm writer.gguf: the options cannot be used: {words}; {see}");
        assert_eq!(error.await, (words, "model_options"));
    }
    let (mut many, _folder) = settings(|settings| settings.embedder = model(embedder()));
    many.llm_threads = CountOrZero(513);
    let error = start(&many, &library()).await.unwrap_err();
    let words = "embedder.gguf: the options cannot be used: threads must be 1 to 512; see --llm-threads";
    assert!(error.to_string().ends_with(words), "{error}");

    let odd = written("odd.gguf", |model| model.template = Some("{{ odd }}".to_owned()));
    let error = told(|settings| settings.llm = model(&odd)).await;
    let words = "--llm odd.gguf: llama.cpp does not support the chat template of the model; set one with --llm-template, such as chatml";
    assert_eq!(error, (words.to_owned(), "model_template"));
    for template in ["chatml", CHATML] {
        let (settings, _folder) = settings(|settings| {
            settings.llm = model(&odd);
            settings.llm_template = Label(Some(template.to_owned()));
        });
        let engines = start(&settings, &library()).await.unwrap();
        within(engines.shutdown()).await;
    }

    // 135 GB of cells.
    let wide = written("wide.gguf", |model| {
        (model.width, model.kv_heads, model.context) = (264, 3, 1_000_000);
    });
    let (words, code) = told(|settings| {
        settings.llm = model(&wide);
        settings.llm_context = CountOrZero(1_000_000);
        settings.llm_slots = Count(64);
    })
    .await;
    let (begin, end) = (
        "--llm wide.gguf: the model needs ",
        " are available; choose a smaller model, or lower --llm-context or --llm-slots",
    );
    assert!(words.starts_with(begin) && words.ends_with(end), "{words}");
    assert_eq!(code, "model_too_big");
}

/// Everything loaded before the mistake is released: a large model must not stay in memory, nor a
/// folder in use.
#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_leaves_nothing_running() {
    let late = |settings: &mut Settings| {
        settings.embedder = model(embedder());
        settings.reranker = model(ranker());
        #[cfg(feature = "qdrant-edge")]
        {
            settings.store = ragwire_server::settings::engines::StoreKind::QdrantEdge;
        }
        settings.llm = model(Path::new(writer()));
        settings.llm_context = CountOrZero(5_000);
    };
    let (mut settings, _folder) = settings(late);
    let library = library();
    let error = start(&settings, &library).await.unwrap_err();
    assert_eq!(error.code(), "model_options");
    settings.llm_context = CountOrZero(0);
    let engines = start(&settings, &library).await.unwrap();
    within(engines.reconcile()).await.unwrap();
    within(engines.shutdown()).await;
}

/// A model server is contacted with the first question, and never if other settings contradict it.
#[tokio::test(flavor = "multi_thread")]
async fn settings_that_contradict_each_other_start_nothing() {
    let error = told(|settings| {
        settings.llm = model(&path("nowhere.gguf"));
        settings.llm_url = "http://127.0.0.1:1/v1".parse().unwrap();
        settings.llm_model = Label(Some("m".into()));
    });
    let words = "llm and llm-url each name a language model; set only one of them";
    assert_eq!(error.await, (words.to_owned(), "bad_settings"));
}

#[cfg(feature = "qdrant")]
#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_qdrant() {
    use ragwire_server::settings::engines::{Secret, StoreKind};

    // The port is closed.
    let port = ragwire_test_support::ports::free_port();
    let (words, code) = told(|settings| {
        settings.store = StoreKind::Qdrant;
        settings.qdrant_url = format!("http://127.0.0.1:{port}").parse().unwrap();
        settings.qdrant_api_key = Secret(Some("s3cret".into()));
    })
    .await;
    let (begin, end) = (
        "store qdrant, collection ragwire: the store is unavailable: ",
        "; start Qdrant, or correct --qdrant-url: the default gRPC port is 6334",
    );
    assert!(
        words.starts_with(begin) && words.ends_with(end) && !words.contains("s3cret"),
        "{words}"
    );
    assert_eq!(code, "store_unavailable");
}

/// A file that looks right and is not: an embedder without a pooling type.
#[tokio::test(flavor = "multi_thread")]
async fn an_embedder_without_pooling() {
    let unsaid = bert("unsaid.gguf", &TinyBert::new(Pooling::Unspecified));
    let error = told(|settings| settings.embedder = model(&unsaid)).await;
    let words = format!("--embedder unsaid.gguf: the model does not pool its vectors{KINDS}");
    assert_eq!(error, (words, "model_no_pooling"));
}
