//! Which model a server has, as the servers that people run answer it.

use ragwire_rag::models::upstream::{
    DiscoverError, EmbeddingOptions, Purpose, UpstreamEmbedder, UpstreamOptions, UpstreamRanker,
};
use ragwire_rag::models::{Embed, Rank, Side};
use serde_json::{Value, json};

use crate::upstream::double::{Double, Reply};
use crate::upstream::within;

fn ollama(names: &[&str]) -> Reply {
    let data: Vec<Value> = names
        .iter()
        .map(|name| json!({"id": name, "object": "model", "created": 1, "owned_by": "library"}))
        .collect();
    Reply::json(200, &json!({"object": "list", "data": data}))
}

fn llama_cpp() -> [Reply; 2] {
    let model = json!({"id": "qwen3-4b.gguf", "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx_train": 40960}});
    [
        Reply::json(
            200,
            &json!({"models": [{"name": "qwen3-4b.gguf"}], "object": "list", "data": [model]}),
        ),
        Reply::json(
            200,
            &json!({"default_generation_settings": {"n_ctx": 2048}, "total_slots": 1}),
        ),
    ]
}

fn vllm() -> Reply {
    let model = |id: &str, parent: Value| json!({"id": id, "object": "model", "owned_by": "vllm", "root": id, "parent": parent, "max_model_len": 4096});
    let data = [
        model("Qwen/Qwen3-8B", Value::Null),
        model("my-adapter", "Qwen/Qwen3-8B".into()),
    ];
    Reply::json(200, &json!({"object": "list", "data": data}))
}

fn missing() -> Reply {
    Reply::new(404, "text/plain", "404 page not found")
}

async fn discover(
    replies: impl IntoIterator<Item = Reply>,
    path: &str,
    purpose: Purpose,
) -> (Result<UpstreamOptions, DiscoverError>, Vec<String>) {
    let double = Double::new(replies).await;
    let base = double.base.replace("/v1", path);
    let found = UpstreamOptions::unnamed(&base).unwrap().discover(purpose).await;
    let lines = double.recorded().into_iter().map(|recorded| recorded.line);
    (found, lines.collect())
}

#[tokio::test]
async fn the_only_model_of_a_server_is_chosen() {
    within(async {
        let props = "GET /props".to_owned();
        let models = || "GET /v1/models".to_owned();
        for (replies, path, name, lines) in [
            (
                vec![ollama(&["llama3.2:latest"])],
                "/v1",
                "llama3.2:latest",
                vec![models()],
            ),
            (
                vec![ollama(&["nomic-embed-text:latest", "qwen3:8b"])],
                "/v1",
                "qwen3:8b",
                vec![models()],
            ),
            // Without `/v1` Ollama has no such page.
            (
                vec![missing(), ollama(&["qwen3:8b"])],
                "",
                "qwen3:8b",
                vec!["GET /models".into(), models()],
            ),
            (llama_cpp().into(), "/v1", "qwen3-4b.gguf", vec![models(), props]),
            (vec![vllm()], "/v1", "Qwen/Qwen3-8B", vec![models()]),
        ] {
            let (found, seen) = discover(replies, path, Purpose::Chat).await;
            assert_eq!((found.unwrap().model(), seen), (name, lines));
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_without_an_obvious_model_is_an_error_that_says_what_it_has() {
    within(async {
        let none = || Reply::json(200, &json!({"object": "list", "data": null}));
        for (replies, message) in [
            (vec![none()], "the server has no model"),
            (
                vec![ollama(&["a", "b", "nomic-embed-text"])],
                "the server has 2 models: a, b",
            ),
            (vec![missing(), missing()], "the server does not list its models"),
            (
                vec![Reply::json(401, &json!({"error": {"message": "Unauthorized"}}))],
                "the server answered 401: Unauthorized",
            ),
        ] {
            let (found, _) = discover(replies, "/v1", Purpose::Chat).await;
            assert_eq!(found.unwrap_err().to_string(), message);
        }
        let double = Double::new([ollama(&["a", "b:latest"]), ollama(&["a", "b:latest"])]).await;
        let named = |name: &str| UpstreamOptions::new(&double.base, name).unwrap();
        assert_eq!(named("b").discover(Purpose::Chat).await.unwrap().model(), "b");
        let unlisted = named("c").discover(Purpose::Chat).await.unwrap_err();
        assert_eq!(
            unlisted.to_string(),
            "the server has no model `c`, but a, b:latest"
        );
    })
    .await;
}

/// llama.cpp answers 503 while it loads, whichever route is asked.
#[tokio::test]
async fn a_server_that_loads_its_model_is_asked_again() {
    within(async {
        let loading = Reply::json(503, &json!({"error": {"message": "Loading model", "code": 503}}));
        let [models, properties] = llama_cpp();
        let (found, lines) = discover([loading, models, properties], "/v1", Purpose::Chat).await;
        assert_eq!((found.unwrap().model(), lines.len()), ("qwen3-4b.gguf", 3));
    })
    .await;
}

#[tokio::test]
async fn the_server_of_tei_embeds_with_its_own_route() {
    within(async {
        let info = Reply::json(
            200,
            &json!({"model_id": "intfloat/multilingual-e5-small", "max_input_length": 512}),
        );
        let double = Double::new([
            missing(),
            missing(),
            info,
            Reply::json(200, &json!([[3, 4]])),
            Reply::json(200, &json!([[0, 2]])),
        ])
        .await;
        let base = double.base.replace("/v1", "");
        let options = UpstreamOptions::unnamed(&base).unwrap();
        let options = options.discover(Purpose::Embedding).await.unwrap();
        let embedding = EmbeddingOptions::for_model(options.model());
        let embedder = UpstreamEmbedder::connect(options, embedding).await.unwrap();
        assert_eq!(
            (embedder.name(), embedder.dimensions()),
            ("intfloat/multilingual-e5-small", 2)
        );
        let vectors = embedder.embed(Side::Query, vec!["robins".into()]).await.unwrap();
        assert_eq!(vectors, [[0.0, 1.0]]);
        let last = double.recorded().pop().unwrap();
        assert_eq!(last.line, "POST /embed");
        assert_eq!(last.body, json!({"inputs": ["query: robins"], "truncate": true}));
    })
    .await;
}

#[test]
fn known_models_get_the_prefixes_they_were_trained_with() {
    for (name, query, passage) in [
        ("nomic-embed-text:latest", "search_query: ", "search_document: "),
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("intfloat/multilingual-e5-large-instruct", "", ""),
        ("text-embedding-3-small", "", ""),
    ] {
        let options = EmbeddingOptions::for_model(name);
        assert_eq!(
            (&*options.query_prefix, &*options.passage_prefix),
            (query, passage)
        );
    }
}

/// The replies of a server, one for each route that is tried, and where it is asked then.
#[tokio::test]
async fn a_reranker_is_asked_as_its_server_expects() {
    let results = |field: &str| {
        let score = |index: u32, score: f32| json!({"index": index, field: score});
        Reply::json(
            200,
            &json!({"model": "m", "results": [score(1, 0.25), score(0, 0.75)]}),
        )
    };
    let tei = || {
        Reply::json(
            200,
            &json!([{"index": 1, "score": 0.25}, {"index": 0, "score": 0.75}]),
        )
    };
    let bad = || Reply::json(422, &json!({"error": "missing field `texts`"}));
    within(async {
        for (server, path, replies, line, field) in [
            (
                "llama.cpp",
                "",
                vec![results("relevance_score"), results("relevance_score")],
                "POST /v1/rerank",
                "documents",
            ),
            (
                "vllm",
                "/v1",
                vec![results("relevance_score"), results("relevance_score")],
                "POST /v1/rerank",
                "documents",
            ),
            (
                "cohere",
                "/v2/rerank",
                vec![results("relevance_score"), results("relevance_score")],
                "POST /v2/rerank",
                "documents",
            ),
            (
                "tei",
                "",
                vec![missing(), bad(), tei(), tei()],
                "POST /rerank",
                "texts",
            ),
        ] {
            let double = Double::new(replies).await;
            let options = UpstreamOptions::unnamed(&double.base.replace("/v1", path)).unwrap();
            let ranker = UpstreamRanker::connect(options).await.unwrap();
            let passages = vec!["a".to_owned(), "b".to_owned()];
            assert_eq!(
                ranker.rank("q", passages).await.unwrap(),
                [0.75, 0.25],
                "{server}"
            );
            let last = double.recorded().pop().unwrap();
            assert_eq!(
                (&*last.line, &last.body[field]),
                (line, &json!(["a", "b"])),
                "{server}"
            );
        }
        let double = Double::new([missing(), missing()]).await;
        let options = UpstreamOptions::unnamed(&double.base).unwrap();
        let error = UpstreamRanker::connect(options).await.unwrap_err();
        assert_eq!(error.code(), "upstream_refused");
    })
    .await;
}
