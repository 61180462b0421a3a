//! Every setting of the server, in one table: a row gives the flag, the environment variable, the key of the file, the default
//! and the help. How the sources are laid over each other stands in `layers.rs`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ragwire::turn::{Durability, JournalLimits, RedisOptions, Timeouts, TurnGroup};
use ragwire_rag::answer::error::MAX_QUESTION_BYTES;
use ragwire_rag::models::upstream::Dialect;
use serde::Deserialize;

use super::engines::{self, Address, Label, Layers, Model, Secret, Speaks, StoreKind};
use super::values::{Count, Grace, Header, Name, RedisUrl, Room, Size, Span, Survives};
use crate::journal;

macro_rules! settings {
    (
        values { $($(#[doc = $doc:literal])+ $(#[arg($($arg:tt)*)])? $name:ident : $Type:ident = $default:expr;)* }
        lists { $($(#[doc = $list_doc:literal])+ $(#[arg($($list_arg:tt)*)])? $list:ident : $Item:ident;)* }
    ) => {
        /// What one source says: what it does not say is left to the next.
        #[derive(Clone, Debug, Default, Deserialize, clap::Args)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct Options {
            $($(#[doc = $list_doc])+ #[arg(long, num_args = 1.. $(, $($list_arg)*)?)] pub $list: Option<Vec<$Item>>,)*
            $($(#[doc = $doc])+ #[arg(long $(, $($arg)*)?)] pub $name: Option<$Type>,)*
        }

        impl Options {
            /// What is not said here is taken from `lower`. Lists are not joined: the higher one stands alone.
            #[must_use]
            pub fn over(self, lower: Self) -> Self {
                Self {
                    $($list: self.$list.or(lower.$list),)*
                    $($name: self.$name.or(lower.$name),)*
                }
            }
        }

        /// What the server runs with.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $($(#[doc = $list_doc])+ pub $list: Vec<$Item>,)*
            $($(#[doc = $doc])+ pub $name: $Type,)*
        }

        impl From<Options> for Settings {
            fn from(options: Options) -> Self {
                Self {
                    $($list: options.$list.unwrap_or_default(),)*
                    $($name: options.$name.unwrap_or_else(|| $default),)*
                }
            }
        }

        impl Settings {
            /// Of each value its name, the name of its kind, and its default, as the help shows them.
            pub fn shown() -> Vec<(&'static str, &'static str, String)> {
                let defaults = Self::default();
                vec![$((stringify!($name), $Type::KIND, Shown::shown(&defaults.$name))),*]
            }
        }
    };
}

settings! {
    values {
        /// Address and port to listen on; port 0 takes a free one
        listen: SocketAddr = LISTEN;
        /// Folder that holds the indexed documents
        data: PathBuf = PathBuf::from(DATA);
        /// How long open answers may take to end after Ctrl-C or SIGTERM
        drain: Span = DRAIN;
        /// Most questions answered at a time
        max_turns: Count = MAX_TURNS;
        /// Most questions that wait to be answered; 0 refuses at once what cannot be answered at once
        max_queued: Room = MAX_QUEUED;
        /// Longest wait of a question to be answered
        queue_timeout: Span = Span(TurnGroup::QUEUE_TIMEOUT);
        /// How long an answer goes on without readers, where its client can come back; 0 ends it at once
        disconnect_grace: Grace = DISCONNECT_GRACE;
        /// How long an answer can be read again after its end
        journal_keep: Span = Span(JournalLimits::KEEP);
        /// Most bytes kept of all answers, so that they can be read again
        journal_size: Size = Size(JournalLimits::MAX_BYTES);
        /// Most answers kept, running and over
        journal_turns: Count = Count(JournalLimits::MAX_TURNS);
        /// Most bytes kept of one answer; of a longer one the beginning is dropped
        journal_turn_size: Size = Size(JournalLimits::MAX_TURN_BYTES);
        /// Redis server that keeps the answers, so that every server with the same one can go on with them; best from a variable or a file
        redis: RedisUrl = RedisUrl::default();
        /// What all keys in Redis begin with
        redis_prefix: Name = Name(RedisOptions::PREFIX.to_owned());
        /// How long a server may be silent before the others end its answers
        redis_lease: Span = Span(RedisOptions::LEASE);
        /// How long Redis may be away before answers fail
        redis_retry: Span = Span(RedisOptions::RETRY);
        /// What Redis has to keep when it crashes: none, every-second or always; one that keeps less is refused
        redis_durability: Survives = Survives(Durability::None);
        /// Language model that writes: a GGUF file, or one of the Hugging Face hub as hf:owner/repo/file
        llm: Model = Model::default();
        /// Model that makes vectors, named like --llm
        embedder: Model = Model::default();
        /// Model that ranks what was found, named like --llm
        reranker: Model = Model::default();
        /// Server of a language model that speaks OpenAI's protocol, as http://127.0.0.1:8000/v1; its key is RAGWIRE_LLM_KEY
        llm_url: Address = Address::default();
        /// Name that this server has for the model
        llm_model: Label = Label::default();
        /// Key for this server
        #[arg(hide = true)]
        llm_key: Secret = Secret::default();
        /// Fields that this server knows: plain, openai, openai-reasoning, llama.cpp, vllm or vllm-guided
        llm_dialect: Speaks = Speaks(Dialect::Plain);
        /// Tokens of a prompt and its answer together; 0 takes what the model was trained on, at most 8,192
        llm_context: Room = LLM_CONTEXT;
        /// Answers that --llm writes at a time
        llm_slots: Count = LLM_SLOTS;
        /// Chat template of --llm instead of its own: a name that llama.cpp knows, such as chatml or llama3
        llm_template: Label = Label::default();
        /// Layers of each model in this process that go to the GPU, where the build has one: all, or a number
        llm_gpu_layers: Layers = LLM_GPU_LAYERS;
        /// Threads that each model in this process computes on; 0 takes half of the cores, at most 16
        llm_threads: Room = LLM_THREADS;
        /// Where chunks and vectors are kept: memory, qdrant-edge or qdrant
        store: StoreKind = StoreKind::Memory;
        /// Qdrant server, as http://127.0.0.1:6334; its key is RAGWIRE_QDRANT_API_KEY
        qdrant_url: Address = Address::default();
        /// Collection on this server; each ragwire-server needs its own
        qdrant_collection: Name = Name(QDRANT_COLLECTION.to_owned());
        /// Key for this server
        #[arg(hide = true)]
        qdrant_api_key: Secret = Secret::default();
        /// Header in which a trusted proxy names who asks; only they can read, stop and answer their own turns
        owner_header: Header = Header(None);
        /// Most uploads taken at a time
        max_uploads: Count = MAX_UPLOADS;
        /// Most connections at a time; more wait
        max_connections: Count = MAX_CONNECTIONS;
        /// Largest file, and largest body of an upload
        max_upload_size: Size = MAX_UPLOAD_SIZE;
        /// Most files in one upload
        max_upload_files: Count = MAX_UPLOAD_FILES;
        /// Longest question, in bytes of UTF-8
        max_question: Size = MAX_QUESTION;
        /// Most documents in the library
        max_documents: Count = MAX_DOCUMENTS;
        /// Most chunks of all documents in the library
        max_chunks: Count = MAX_CHUNKS;
        /// Keep a graph of what the documents speak of, for `graph-rag`
        #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true, hide_possible_values = true, value_parser = clap::builder::BoolishValueParser::new())]
        graph: bool = true;
        /// Have the language model read the graph out of the documents, passage by passage, and not patterns
        #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true, hide_possible_values = true, value_parser = clap::builder::BoolishValueParser::new())]
        graph_model: bool = false;
        /// Most sessions remembered; the one unused for longest goes first
        max_sessions: Count = MAX_SESSIONS;
        /// Most turns remembered of a session, questions and answers counted each
        session_turns: Count = SESSION_TURNS;
        /// Most text remembered of a session
        session_size: Size = SESSION_SIZE;
        /// How long an unused session is remembered
        session_age: Span = SESSION_AGE;
        /// Longest wait for the head of a request
        header_timeout: Span = HEADER_TIMEOUT;
        /// Longest silence while the body of a request arrives
        body_timeout: Span = BODY_TIMEOUT;
        /// How long a reader may take nothing before its connection is cut
        write_timeout: Span = WRITE_TIMEOUT;
        /// Silence after which an event stream gets a blank line
        keep_alive: Span = Span(Timeouts::KEEP_ALIVE);
        /// Longest silence of the pipeline before a turn fails
        idle_timeout: Span = Span(Timeouts::IDLE);
        /// Longest turn
        turn_timeout: Span = Span(Timeouts::TOTAL);
        /// Longest time to read one document
        extract_timeout: Span = EXTRACT_TIMEOUT;
        /// Most memory of the process that reads a document (unix only)
        extract_memory: Size = EXTRACT_MEMORY;
        /// Answer questions such as `fault:text` with that fault, for tests
        #[arg(hide = true, num_args = 0..=1, default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
        test_faults: bool = false;
    }
    lists {
        /// Files and folders to index at start: Markdown, text, HTML, PDF
        #[arg(value_name = "PATH")]
        docs: PathBuf;
        /// Host names that requests may carry besides the address listened on
        #[arg(value_name = "HOST")]
        allow_host: String;
        /// Web origins whose pages may call this server
        #[arg(value_name = "ORIGIN")]
        allow_origin: String;
    }
}

/// Loopback: what listens to the whole network without a login has to be asked for. 8787 is registered to nobody that is
/// commonly run beside it.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8787);
/// In the working folder and printed at start, so that it is found and thrown away without a manual.
const DATA: &str = "data";
/// Kubernetes kills after 30 seconds; an answer that is being ended needs far less.
const DRAIN: Span = Span(Duration::from_secs(10));
/// The pipeline computes on each of them; more at a time would only make all of them late.
const MAX_TURNS: Count = Count(TurnGroup::MAX_ACTIVE);
/// Each holds a connection and its question in memory; as many as are answered, so that who comes last waits for one answer.
const MAX_QUEUED: Room = Room(64);
/// A page is loaded again, a phone changes its network: that takes some seconds. What nobody comes back for should not compute on.
const DISCONNECT_GRACE: Grace = Grace(Duration::from_secs(30));
/// Below, a loaded machine looks dead; above, nobody waits.
const REDIS_TIMES: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);
/// What evidence for one answer needs; the model says whether it takes that.
pub(super) const LLM_CONTEXT: Room = Room(0);
/// One card or one CPU writes four answers nearly as fast as one; each more takes memory of the context.
pub(super) const LLM_SLOTS: Count = Count(4);
/// What a GPU is built in for. A build without one passes over it.
pub(super) const LLM_GPU_LAYERS: Layers = Layers(None);
/// The other half of the cores is the server's, and often no cores of their own.
pub(super) const LLM_THREADS: Room = Room(0);
pub(super) const QDRANT_COLLECTION: &str = "ragwire";
/// Each holds one body in memory, and one process that reads it.
const MAX_UPLOADS: Count = Count(4);
/// The usual soft limit on open files is 1,024; some are needed for the rest.
const MAX_CONNECTIONS: Count = Count(900);
/// A book with pictures. The parser's own limit is the same.
const MAX_UPLOAD_SIZE: Size = Size(32 << 20);
/// A folder dropped on the page.
const MAX_UPLOAD_FILES: Count = Count(64);
/// More than a page of text is no question.
const MAX_QUESTION: Size = Size(8 << 10);
/// The library's own defaults.
const MAX_DOCUMENTS: Count = Count(10_000);
const MAX_CHUNKS: Count = Count(500_000);
/// With `SESSION_SIZE` 64 MiB for all of them.
const MAX_SESSIONS: Count = Count(1_000);
const SESSION_TURNS: Count = Count(50);
const SESSION_SIZE: Size = Size(64 << 10);
/// A working day and the night after it.
const SESSION_AGE: Span = Span(Duration::from_secs(24 * 3600));
/// A head is one packet; nginx waits 60, Apache 20.
const HEADER_TIMEOUT: Span = Span(Duration::from_secs(10));
/// As long as a phone takes from one network to the next.
const BODY_TIMEOUT: Span = Span(Duration::from_secs(30));
const WRITE_TIMEOUT: Span = Span(Timeouts::WRITE_STALL);
/// A book of 1,000 pages takes some seconds.
const EXTRACT_TIMEOUT: Span = Span(Duration::from_secs(30));
/// Ten times what the largest of our test documents needs.
const EXTRACT_MEMORY: Size = Size(1 << 30);

impl Default for Settings {
    fn default() -> Self {
        Options::default().into()
    }
}

/// How the help shows a value.
trait Shown {
    const KIND: &'static str;

    fn shown(&self) -> String;
}

macro_rules! shown {
    ($($Type:ident $kind:literal)*) => { $(impl Shown for $Type {
        const KIND: &'static str = $kind;

        fn shown(&self) -> String {
            self.to_string()
        }
    })* };
}

shown! {
    SocketAddr "ADDRESS" Count "NUMBER" Room "NUMBER" Size "BYTES" Span "TIME" Grace "TIME" Header "NAME" Name "NAME" RedisUrl "URL"
    Survives "WHAT" bool "BOOL" Model "FILE" Address "URL" Label "NAME" Secret "KEY" Layers "NUMBER" Speaks "WHAT" StoreKind "WHAT"
}

impl Shown for PathBuf {
    const KIND: &'static str = "DIR";

    fn shown(&self) -> String {
        self.display().to_string()
    }
}

/// Why settings that are each legal cannot hold together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Contradiction(String);

impl Contradiction {
    /// In these words, which name the setting.
    pub(super) fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

impl Settings {
    /// Looks for settings that contradict each other.
    ///
    /// # Errors
    ///
    /// The first [`Contradiction`].
    pub fn check(&self) -> Result<(), Contradiction> {
        let less = |low: (&str, Span), high: (&str, Span)| {
            if low.1 < high.1 {
                Ok(())
            } else {
                Err(Contradiction(format!(
                    "{} ({}) must be less than {} ({})",
                    low.0, low.1, high.0, high.1
                )))
            }
        };
        less(
            ("keep-alive", self.keep_alive),
            ("idle-timeout", self.idle_timeout),
        )?;
        // Equal is legal here: then only the longer one matters.
        if self.idle_timeout > self.turn_timeout {
            return less(
                ("idle-timeout", self.idle_timeout),
                ("turn-timeout", self.turn_timeout),
            );
        }
        if self.max_question.0 > MAX_QUESTION_BYTES {
            return Err(Contradiction(format!(
                "max-question ({}) must not be more than {}, which the pipeline takes",
                self.max_question,
                Size(MAX_QUESTION_BYTES)
            )));
        }
        if self.journal_turns.0 < self.max_turns.0 + self.max_queued.0 {
            return Err(Contradiction(format!(
                "journal-turns ({}) must not be less than max-turns ({}) and max-queued ({}) together: each has its place there",
                self.journal_turns, self.max_turns, self.max_queued
            )));
        }
        if self.journal_turn_size > self.journal_size {
            return Err(Contradiction(format!(
                "journal-turn-size ({}) must not be more than journal-size ({}), which is for all",
                self.journal_turn_size, self.journal_size
            )));
        }
        for (name, time) in [
            ("redis-lease", self.redis_lease),
            ("redis-retry", self.redis_retry),
        ] {
            if !REDIS_TIMES.contains(&time.0) {
                return Err(Contradiction(format!("{name} ({time}) must be from 100ms to 1h")));
            }
        }
        if let Err(error) = journal::redis_options(self) {
            return Err(Contradiction(format!("redis: {error}")));
        }
        engines::check(self)?;
        if self.session_turns.0 < 2 {
            return Err(Contradiction(
                "session-turns must be at least 2: a question and its answer".into(),
            ));
        }
        if self.max_question > self.session_size {
            return Err(Contradiction(format!(
                "max-question ({}) must not be more than session-size ({}): the question is remembered",
                self.max_question, self.session_size
            )));
        }
        for origin in &self.allow_origin {
            let authority = origin
                .strip_prefix("http://")
                .or_else(|| origin.strip_prefix("https://"));
            let plain = |authority: &str| !authority.is_empty() && !authority.contains(['/', '*', ' ']);
            if !authority.is_some_and(plain) {
                return Err(Contradiction(format!(
                    "allow-origin `{origin}` is no origin; write https://example.org"
                )));
            }
        }
        for host in &self.allow_host {
            if host.is_empty() || host.contains(['/', '*', ' ', '@']) {
                return Err(Contradiction(format!(
                    "allow-host `{host}` is no host name; write example.org"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold_together() {
        assert_eq!(Settings::default().check(), Ok(()));
    }

    #[test]
    fn contradictions_are_named() {
        type Change = fn(&mut Settings);
        let cases: &[(Change, &str)] = &[
            (|s| s.keep_alive = s.idle_timeout, "keep-alive"),
            (|s| s.idle_timeout = Span(s.turn_timeout.0 * 2), "idle-timeout"),
            (|s| s.session_turns = Count(1), "session-turns"),
            (|s| s.journal_turns = Count(127), "journal-turns"),
            (
                |s| s.journal_turn_size = Size(s.journal_size.0 + 1),
                "journal-turn-size",
            ),
            (
                |s| s.redis = RedisUrl(Some("http://:s3cret@a".into())),
                "redis: redis url is not valid: ",
            ),
            (|s| s.redis_prefix = Name("{a}".into()), "redis: redis prefix"),
            (
                |s| s.redis_lease = Span(Duration::from_millis(10)),
                "redis-lease (10ms)",
            ),
            (|s| s.redis_retry = Span(Duration::from_secs(3601)), "redis-retry"),
            (|s| s.max_question = Size(1 << 30), "max-question"),
            (|s| s.allow_origin = vec!["*".into()], "allow-origin"),
            (|s| s.allow_host = vec!["http://a".into()], "allow-host"),
        ];
        for (change, named) in cases {
            let mut settings = Settings::default();
            change(&mut settings);
            let error = settings.check().unwrap_err();
            assert!(error.to_string().starts_with(named), "{error}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }
}
