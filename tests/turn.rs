//! What a turn does, on a paused clock.

use http_body_util::BodyExt;
use ragwire::event::Search;
use ragwire::{Framed, Metadata, SendError, Sink, Turn};

async fn answer(sink: Sink) -> Result<Metadata, SendError> {
    sink.send(Search::new("bm25").query("q")).await?;
    sink.send("Hi").await?;
    sink.send(" there").await?;
    Ok(Metadata::default().tools_used(["bm25"]).mode("hybrid"))
}

#[tokio::test(start_paused = true)]
async fn a_turn_streams() {
    let turn = Turn::start(answer).commit().await.unwrap();
    let bytes = turn
        .respond(Framed::default())
        .into_body()
        .collect()
        .await
        .unwrap()
        .to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let (line, rest) = text.split_once('\n').unwrap();
    assert!(
        line.starts_with(r#"{"event":"search","tool":"bm25","query":"q","timestamp":""#),
        "{line}"
    );
    assert_eq!(
        rest,
        "\x1dHi there\x1e{\"citations\":[],\"mode\":\"hybrid\",\"tools_used\":[\"bm25\"]}"
    );
}
