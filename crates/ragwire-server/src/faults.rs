//! Questions that fail on purpose in a given phase, to test clients against a real server.
//!
//! They only work with `--test-faults`. All other questions go to the inner orchestrator.
//!
//! | question | what happens |
//! |---|---|
//! | `fault:empty` | no event and no text, then a normal end |
//! | `fault:no-events` | two pieces of text, then a normal end |
//! | `fault:reject` | fails before the first event: an HTTP error |
//! | `fault:retrieval` | one event, then a failure |
//! | `fault:text` | one event, some text, then a failure |
//! | `fault:panic` | one event, then a panic |
//! | `fault:stop` | one event, some text, then a stop |
//! | `fault:length` | one event, some text, then an end at the model's limit |
//! | `fault:ask` | one event, then asks for approval, and writes a sentence that depends on the answer |
//! | `fault:ask-text` | one event, then asks for a name, and writes it |
//! | `fault:authorize` | one event, then waits for consent on another page, and writes the outcome |
//! | `fault:silent` | one event, then nothing until a time-out |
//! | `fault:slow` | ten events and forty words, one every 100 ms, then a normal end |
//! | `fault:paced 300 20 red` | 300 words `red-1 `, `red-2 ` …, one every 20 ms, each tenth after an event, then a normal end |
//! | `fault:long` | one event and two hundred words, one every 100 ms, then a normal end |
//! | `fault:flood` | one event, then text without end |
//! | `fault:hostile` | events and text full of markup and separators, then a normal end |
//! | `fault:unicode` | events and text with emoji cut in two, line separators and control bytes, then a normal end |

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ragwire::event::{Reasoning, Search};
use ragwire::orchestrator::{Answering, Searcher};
use ragwire::turn::{Ask, AskError, Authorize, BoxError};
use ragwire::{Citation, Metadata, Orchestrator, Question, Sink};
use serde_json::Value;

/// Text that is difficult for readers of lines, JSON and UTF-8.
const UNICODE: &str = "h\u{e9} \u{1f600}\u{200d}\u{1f680} a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f\r\ng\rh\ti\0j\u{1}k\u{1b}l\u{1d}m\u{1e}n\u{7f}o\u{feff}p\\u2028 data: x\n\nevent: y\n\n";
const STEP: Duration = Duration::from_millis(100);
/// Eight megabytes per second: this fills the buffers of a client that does not read, and a client
/// that reads handles it easily.
const FLOOD_BYTES: usize = 8 * 1024;
const FLOOD_PAUSE: Duration = Duration::from_millis(1);

/// An orchestrator that fails on request.
pub struct Faults {
    inner: Arc<dyn Orchestrator>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}

impl Faults {
    /// Wraps an orchestrator.
    pub fn new(inner: Arc<dyn Orchestrator>) -> Self {
        Self { inner }
    }
}

impl Orchestrator for Faults {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        match question.prompt.trim().strip_prefix("fault:") {
            Some(fault) => Box::pin(play(fault.to_owned(), sink)),
            None => self.inner.answer(question, sink),
        }
    }

    fn searcher(&self) -> Option<Arc<dyn Searcher>> {
        self.inner.searcher()
    }

    fn has_structured_results(&self) -> bool {
        self.inner.has_structured_results()
    }

    fn check_filter(&self, filter: &Value) -> Option<Result<(), String>> {
        self.inner.check_filter(filter)
    }
}

/// A long answer. All words start with `name`, so that a test can distinguish turns.
struct Paced<'a> {
    words: u32,
    pause: Duration,
    name: &'a str,
}

impl<'a> Paced<'a> {
    fn read(fault: &'a str) -> Option<Self> {
        let mut parts = fault.split(' ').skip(1);
        let words = parts.next()?.parse().ok()?;
        let pause = Duration::from_millis(parts.next()?.parse().ok()?);
        let name = parts.next()?;
        parts.next().is_none().then_some(Self { words, pause, name })
    }
}

async fn play(fault: String, sink: Sink) -> Result<Metadata, BoxError> {
    match fault.as_str() {
        "empty" => return Ok(Metadata::default()),
        "no-events" => {
            sink.send("Yes, ").await?;
            sink.send("it is.").await?;
            return Ok(Metadata::default().tools_used(["fault"]));
        }
        "reject" => return Err("a failure before the first event".into()),
        _ => {}
    }
    sink.send(Search::new("fault").query(&fault)).await?;
    match fault.as_str() {
        "text" => {
            sink.send("The first half of an answer ").await?;
            sink.send("that breaks ").await?;
            Err("a failure between two tokens".into())
        }
        "stop" => {
            sink.send("The first half of an answer ").await?;
            sink.stop()?;
            std::future::pending().await
        }
        "length" => {
            sink.send("The first half of an answer").await?;
            Ok(Metadata::default().tools_used(["fault"]).cut_short())
        }
        "ask" => {
            let answer = sink.ask(Ask::approval("Delete 3 files?").request_id("delete"));
            let sentence = match answer.await {
                Ok(answer) if answer == "Approve" => "They are deleted.",
                Ok(_) => "They are left alone.",
                Err(AskError::Expired) => "Nobody answered, so they are left alone.",
                Err(error) => return Err(error.into()),
            };
            sink.send(sentence).await?;
            Ok(Metadata::default().tools_used(["fault"]))
        }
        "ask-text" => {
            let answer = sink.ask(Ask::text("What is your name?").request_id("name")).await;
            let sentence = match answer {
                Ok(name) => format!("Hello, {}.", name.as_str().unwrap_or("whoever you are")),
                Err(AskError::Expired) => "Hello, whoever you are.".to_owned(),
                Err(error) => return Err(error.into()),
            };
            sink.send(sentence).await?;
            Ok(Metadata::default().tools_used(["fault"]))
        }
        "authorize" => {
            let consent = Authorize::new("mail", "https://login.example/?state=consent")
                .description("Reads your mail.")
                .request_id("consent");
            let outcome = sink.authorize(consent).await?;
            sink.send(format!("The consent: {}.", outcome.as_str())).await?;
            Ok(Metadata::default().tools_used(["fault"]))
        }
        "panic" => panic!("a panic on purpose"),
        "silent" => std::future::pending().await,
        "slow" => {
            for step in 1..=10 {
                tokio::time::sleep(STEP).await;
                sink.send(Reasoning::new(format!("Step {step} of 10."))).await?;
            }
            speak(40, &sink).await?;
            Ok(Metadata::default().tools_used(["fault"]))
        }
        "long" => {
            speak(200, &sink).await?;
            Ok(Metadata::default().tools_used(["fault"]))
        }
        "flood" => loop {
            sink.send("x".repeat(FLOOD_BYTES)).await?;
            tokio::time::sleep(FLOOD_PAUSE).await;
        },
        paced if paced.starts_with("paced ") => {
            let Paced { words, pause, name } = Paced::read(paced).ok_or("no such pace")?;
            for word in 1..=words {
                tokio::time::sleep(pause).await;
                if word % 10 == 0 {
                    sink.send(Reasoning::new(format!("Word {word} of {words}.")))
                        .await?;
                }
                sink.send(format!("{name}-{word} ")).await?;
            }
            Ok(Metadata::default().tools_used(["fault"]))
        }
        "hostile" => {
            let text = "<img src=x onerror=\"document.title='owned'\"> \u{1e}{\"citations\":[]} \u{1d} [1] </script>";
            sink.send(Reasoning::new(text)).await?;
            sink.send(text).await?;
            let citation = Citation::new("../../etc", "\"><script>", text, "fault");
            Ok(Metadata::default()
                .citations(vec![citation])
                .tools_used(["fault"]))
        }
        "unicode" => {
            sink.send(Reasoning::new(UNICODE)).await?;
            // Cut in the middle of characters, like the tokens of a model.
            for piece in UNICODE.as_bytes().chunks(3) {
                sink.send(piece).await?;
            }
            let citation = Citation::new("doc\u{2028}1", "chunk\u{85}1", UNICODE, "fault");
            Ok(Metadata::default()
                .citations(vec![citation])
                .tools_used(["fault"]))
        }
        _ => Err("a failure while the evidence is gathered".into()),
    }
}

async fn speak(words: u32, sink: &Sink) -> Result<(), BoxError> {
    for word in 1..=words {
        tokio::time::sleep(STEP).await;
        sink.send(format!("word{word} ")).await?;
    }
    Ok(())
}
