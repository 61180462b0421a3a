//! The service `triples`: a socket resolves what was explained on it, and nothing else.

use ragwire::event::{GraphExplanation, Triple};

use super::*;

const GRAPH: &str = "urn:graph:retrieval";

/// A gateway whose answers are written from one edge, to the entity that the query names.
fn focused() -> Gateway {
    let answer = |call: Call| {
        let target = format!("urn:ragwire:entity:{}", call.query());
        let edge = Triple::new(
            "urn:ragwire:entity:commit_rule",
            "urn:ragwire:relation:names",
            target,
        );
        Turn::start(|sink: Sink| async move {
            sink.send(GraphExplanation::new("urn:ragwire:focus:1", GRAPH, vec![edge]))
                .await?;
            Ok::<_, BoxError>(Metadata::default())
        })
        .commit()
    };
    Gateway::builder()
        .service("graph-rag", ServiceKind::GraphRag, answer)
        .build()
}

/// Asks a question and returns the ID of what is explained.
async fn explained<S: AsyncRead + AsyncWrite + Unpin>(client: &mut Client<S>, query: &str) -> String {
    client.ask(query).await;
    let mut id = String::new();
    loop {
        let message: Value = serde_json::from_str(&client.text().await).unwrap();
        if let Some(explain_id) = message["response"]["explain_id"].as_str() {
            id = explain_id.to_owned();
        }
        if message["complete"] == true {
            return id;
        }
    }
}

async fn triples<S: AsyncRead + AsyncWrite + Unpin>(client: &mut Client<S>, request: Value) -> Value {
    client
        .send(json!({ "id": "q", "service": "triples", "flow": "default", "request": request }))
        .await;
    let mut message: Value = serde_json::from_str(&client.text().await).unwrap();
    assert_eq!(
        [&message["id"], &message["complete"]],
        [&json!("q"), &json!(true)]
    );
    message["response"]["response"].take()
}

fn iri(term: &str) -> Value {
    json!({ "t": "i", "i": term })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_focus_has_edges_and_labels() {
    let gateway = focused();
    let mut client = Server::Hyper.connect(&gateway).await;
    for (query, id) in [
        ("commit", "urn:ragwire:focus:1"),
        ("rule", "urn:ragwire:focus:1/2"),
    ] {
        assert_eq!(explained(&mut client, query).await, id);
        let edge = json!({
            "s": iri("urn:ragwire:entity:commit_rule"),
            "p": iri("urn:ragwire:relation:names"),
            "o": iri(&format!("urn:ragwire:entity:{query}")),
        });
        let selected = format!("{id}#0");
        let members = triples(&mut client, json!({ "s": iri(id), "g": GRAPH, "limit": 100 })).await;
        assert_eq!(
            members,
            json!([
                {
                    "s": iri(id),
                    "p": iri("http://www.w3.org/1999/02/22-rdf-syntax-ns#type"),
                    "o": iri("https://trustgraph.ai/ns/Focus"),
                },
                { "s": iri(id), "p": iri("https://trustgraph.ai/ns/selectedEdge"), "o": iri(&selected) },
            ])
        );
        let quoted = triples(&mut client, json!({ "s": iri(&selected) })).await;
        assert_eq!(
            quoted,
            json!([{
                "s": iri(&selected),
                "p": iri("https://trustgraph.ai/ns/edge"),
                "o": { "t": "t", "tr": edge },
            }])
        );
    }
    let label = "http://www.w3.org/2000/01/rdf-schema#label";
    let labels = triples(
        &mut client,
        json!({ "s": iri("urn:ragwire:entity:commit_rule"), "p": iri(label), "limit": 1 }),
    )
    .await;
    assert_eq!(labels[0]["o"], json!({ "t": "l", "v": "commit rule" }));
    // Another socket knows nothing of it.
    let mut other = Server::Hyper.connect(&gateway).await;
    assert_eq!(
        triples(&mut other, json!({ "s": iri("urn:ragwire:focus:1") })).await,
        json!([])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_in_flight_is_a_duplicate() {
    let stage = Stage::default();
    let part = stage.part("q");
    let mut client = Server::Hyper.connect(&stage.gateway().build()).await;
    client.ask("q").await;
    client
        .send(json!({ "id": "q", "service": "triples", "request": {} }))
        .await;
    part.send_text("x").await;
    let messages = client.texts(2).await;
    let refused: Vec<_> = messages
        .iter()
        .filter(|text| text.contains("duplicate-id"))
        .collect();
    assert_eq!(refused.len(), 1, "{messages:?}");
}
