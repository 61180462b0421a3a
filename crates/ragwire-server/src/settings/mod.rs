//! The settings of the server, in one table.
//!
//! Each row defines the flag, the environment variable, the key in the settings file, the default
//! and the help text. `layers.rs` merges these sources, `values.rs` and `engines.rs` hold the value
//! types.

mod check;
pub mod engines;
pub mod languages;
pub mod layers;
pub mod orchestrator;
pub mod values;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ragwire::turn::{Durability, JournalLimits, RedisError, RedisOptions, Timeouts, TurnGroup};
use ragwire_endpoints::{ClientShare, EndpointLimits};
use ragwire_rag::models::upstream::Dialect;
use serde::Deserialize;

pub use check::Contradiction;
use engines::{Address, JudgeKind, Label, Layers, LlmDialect, Model, Secret, StoreKind};
use languages::Languages;
use values::{
    Count, CountOrZero, File, Folder, Grace, Header, Listen, LogFormat, Name, Percent, RedisDurability,
    RedisUrl, Size, Span,
};

macro_rules! settings {
    (
        values { $($(#[doc = $doc:literal])+ $(#[arg($($arg:tt)*)])? $name:ident : $Type:ident = $default:expr;)* }
        lists { $($(#[doc = $list_doc:literal])+ $(#[arg($($list_arg:tt)*)])? $list:ident : $Item:ident;)* }
    ) => {
        /// The settings given by one source: flags, environment or file.
        #[derive(Clone, Debug, Default, Deserialize, clap::Args)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct Options {
            $($(#[doc = $list_doc])+ #[arg(long, num_args = 1.. $(, $($list_arg)*)?)] pub $list: Option<Vec<$Item>>,)*
            $($(#[doc = $doc])+ #[arg(long $(, $($arg)*)?)] pub $name: Option<$Type>,)*
        }

        impl Options {
            /// Fills settings that are missing here from `lower`. A list replaces the lower one.
            #[must_use]
            pub fn over(self, lower: Self) -> Self {
                Self {
                    $($list: self.$list.or(lower.$list),)*
                    $($name: self.$name.or(lower.$name),)*
                }
            }
        }

        /// The settings of a running server.
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
            /// Returns the name, the kind and the default of each value, as `--help` prints them.
            pub fn defaults_for_help() -> Vec<(&'static str, &'static str, String)> {
                let defaults = Self::default();
                vec![$((stringify!($name), $Type::KIND, HelpText::help_text(&defaults.$name))),*]
            }
        }
    };
}

settings! {
    values {
        /// Address and port to listen on, or a port of this machine alone; port 0 picks a free port
        listen: Listen = LISTEN;
        /// Folder for the indexed documents
        data: PathBuf = PathBuf::from(DATA);
        /// Follow the files and folders of --docs while the server runs: read what is new or changes,
        /// remove what is gone
        #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true, hide_possible_values = true, value_parser = values::switch)]
        watch: bool = false;
        /// How long running answers may take to end after Ctrl-C or SIGTERM
        drain: Span = DRAIN;
        /// Format of the log on stderr: text, or json with an object per line
        log_format: LogFormat = LogFormat::Text;
        /// OpenTelemetry collector that gets a span for each question, as http://127.0.0.1:4318 (OTLP
        /// over HTTP); the variables OTEL_* set the rest
        otlp_url: Address = Address::default();
        /// Maximum number of questions answered concurrently
        max_turns: Count = MAX_TURNS;
        /// Maximum number of questions on the waiting list; 0 refuses a question that cannot start
        /// at once
        max_queued: CountOrZero = MAX_QUEUED;
        /// Maximum time a question stays on the waiting list
        queue_timeout: Span = Span(TurnGroup::QUEUE_TIMEOUT);
        /// How long an answer continues without readers if its client can reconnect; 0 stops it at
        /// once
        disconnect_grace: Grace = DISCONNECT_GRACE;
        /// How long a finished answer can be read again
        journal_keep: Span = Span(JournalLimits::KEEP);
        /// Maximum size of all answers that can be read again
        journal_size: Size = Size(JournalLimits::MAX_BYTES);
        /// Maximum number of answers, running and finished, that can be read again
        journal_turns: Count = Count(JournalLimits::MAX_TURNS);
        /// Maximum size of one answer that can be read again; the beginning of a longer one is
        /// dropped
        journal_turn_size: Size = Size(JournalLimits::MAX_TURN_BYTES);
        /// Redis server of answers and sessions; set it with a variable or in the file
        redis: RedisUrl = RedisUrl::default();
        /// Prefix of all keys in Redis
        redis_prefix: Name = Name(RedisOptions::PREFIX.to_owned());
        /// How long a server may be silent before another server ends its answers
        redis_lease: Span = Span(RedisOptions::LEASE);
        /// How long Redis may be unreachable before answers fail
        redis_retry: Span = Span(RedisOptions::RETRY);
        /// Durability that Redis must provide: none, every-second or always; the server does not
        /// start with less
        redis_durability: RedisDurability = RedisDurability(Durability::None);
        /// Language model that writes answers: a GGUF file, or hf:owner/repo/file on the Hugging
        /// Face hub
        llm: Model = Model::default();
        /// Embedding model, named like --llm
        embedder: Model = Model::default();
        /// Reranker for search results, named like --llm
        reranker: Model = Model::default();
        /// OpenAI-compatible server of a language model, as http://127.0.0.1:11434/v1; set its key
        /// as RAGWIRE_LLM_KEY
        llm_url: Address = Address::default();
        /// Name of the model on the server of --llm-url; by default its only one
        llm_model: Label = Label::default();
        /// Key for the server of --llm-url
        #[arg(hide = true)]
        llm_key: Secret = Secret::default();
        /// Request fields that the server of --llm-url understands: plain, openai,
        /// openai-reasoning, llama.cpp, vllm or vllm-guided
        llm_dialect: LlmDialect = LlmDialect(Dialect::Plain);
        /// Write the error messages of the servers of models to the log; some quote texts and the
        /// prompt in them
        #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true, hide_possible_values = true, value_parser = values::switch)]
        log_upstream_errors: bool = false;
        /// Context size in tokens, prompt and answer together; 0 uses the size the model was
        /// trained on, at most 8,192
        llm_context: CountOrZero = LLM_CONTEXT;
        /// Answers that --llm writes concurrently
        llm_slots: Count = LLM_SLOTS;
        /// Chat template for --llm instead of its own: a name that llama.cpp knows, such as chatml
        /// or llama3
        llm_template: Label = Label::default();
        /// Layers of each local model to offload to the GPU, if the build supports one: all, or a
        /// number
        llm_gpu_layers: Layers = LLM_GPU_LAYERS;
        /// Threads for each local model; 0 uses half of the cores, at most 16
        llm_threads: CountOrZero = LLM_THREADS;
        /// How long the server of --llm-url may take to begin its answer; then quotes replace it
        llm_timeout: Span = LLM_TIMEOUT;
        /// Server of an embedding model, as http://127.0.0.1:11434/v1: OpenAI's protocol or TEI; set
        /// its key as RAGWIRE_EMBEDDER_KEY
        embedder_url: Address = Address::default();
        /// Name of the model on the server of --embedder-url; by default its only one
        embedder_model: Label = Label::default();
        /// Key for the server of --embedder-url
        #[arg(hide = true)]
        embedder_key: Secret = Secret::default();
        /// Server of a reranker, as http://127.0.0.1:8080: llama.cpp, vLLM, TEI, Jina or Cohere; set
        /// its key as RAGWIRE_RERANKER_KEY
        reranker_url: Address = Address::default();
        /// Name of the model on the server of --reranker-url; by default its only one
        reranker_model: Label = Label::default();
        /// Key for the server of --reranker-url
        #[arg(hide = true)]
        reranker_key: Secret = Secret::default();
        /// What judges searches, passages and answers: words, or the language model, which is then
        /// called several times per question
        judge: JudgeKind = JudgeKind::Words;
        /// Store for chunks and vectors: memory, qdrant-edge or qdrant
        store: StoreKind = StoreKind::Memory;
        /// Qdrant server, as http://127.0.0.1:6334; set its key as RAGWIRE_QDRANT_API_KEY
        qdrant_url: Address = Address::default();
        /// Qdrant collection of the vectors; the library is in NAME-library beside it. Servers with
        /// the same collection share their documents
        qdrant_collection: Name = Name(QDRANT_COLLECTION.to_owned());
        /// Key for the server of --qdrant-url
        #[arg(hide = true)]
        qdrant_api_key: Secret = Secret::default();
        /// Orchestrator that answers in place of the library: http://host:port/path, or
        /// exec:PROGRAM ARGUMENTS for child processes
        orchestrator: Address = Address::default();
        /// Protocol of the orchestrator, for its request and its answer; by default the answer's
        /// content type decides
        orchestrator_wire: Label = Label::default();
        /// Model or assistant that requests to the orchestrator name
        orchestrator_model: Label = Label::default();
        /// Token for the orchestrator, sent as `Authorization: Bearer`
        #[arg(hide = true)]
        orchestrator_token: Secret = Secret::default();
        /// PEM file of the certificate authorities to trust for an orchestrator behind https,
        /// instead of Mozilla's list
        orchestrator_ca: Label = Label::default();
        /// How long the orchestrator may take to begin its answer
        orchestrator_timeout: Span = ORCHESTRATOR_TIMEOUT;
        /// How long the orchestrator may be silent within its answer
        orchestrator_idle_timeout: Span = ORCHESTRATOR_TIMEOUT;
        /// How often a question is sent to the orchestrator in total if it fails before its answer
        /// begins
        orchestrator_attempts: Count = ORCHESTRATOR_ATTEMPTS;
        /// Maximum number of child processes of an orchestrator with `exec:`, each of which answers
        /// one question at a time
        orchestrator_workers: Count = ORCHESTRATOR_WORKERS;
        /// Header in which a trusted proxy names the user; only that user can read, stop and answer
        /// their turns
        owner_header: Header = Header(None);
        /// File of API keys, as `keys new` prints its lines; every request then needs a key that may do
        /// what it asks. SIGHUP reads the file again
        api_keys: File = File(None);
        /// Pad the pieces of streamed answers to a multiple of this many bytes, so that the sizes of
        /// encrypted packets do not show the lengths of words; 256 hides most of them, 0 pads nothing
        pad_to: CountOrZero = CountOrZero(0);
        /// PEM file with the certificate of this server and the ones between it and its authority: the
        /// port then speaks HTTPS only. SIGHUP reads the file and that of --tls-key again
        tls_cert: File = File(None);
        /// PEM file with the private key of --tls-cert
        tls_key: File = File(None);
        /// Largest share of the connections, of the questions and of the memory for bodies that one
        /// client may have, in percent; a client is a user with --owner-header, otherwise an address
        client_share: Percent = CLIENT_SHARE;
        /// Maximum number of uploads that are read and indexed concurrently, once their bodies have
        /// arrived
        max_uploads: Count = MAX_UPLOADS;
        /// Maximum number of open connections; if there are more, idle ones and slow uploads give way
        max_connections: Count = MAX_CONNECTIONS;
        /// Maximum memory for the bodies of all requests that are arriving; beyond it, the slowest
        /// one is refused
        max_body_memory: Size = Size(EndpointLimits::MAX_BODY_MEMORY);
        /// Minimum rate at which the body of a request must arrive, in bytes per second
        min_body_rate: Size = Size(EndpointLimits::MIN_BODY_RATE);
        /// Maximum size of a file and of an upload
        max_upload_size: Size = MAX_UPLOAD_SIZE;
        /// Folder that all servers of one Qdrant collection can write, for the original files of its
        /// documents; without it, each server keeps those of its uploads in its own --data
        originals: Folder = Folder(None);
        /// Maximum size of all original files that are kept for their readers
        originals_size: Size = ORIGINALS_SIZE;
        /// Maximum number of files in one upload
        max_upload_files: Count = MAX_UPLOAD_FILES;
        /// Maximum length of a question, in bytes of UTF-8
        max_question: Size = MAX_QUESTION;
        /// Maximum number of documents in the library
        max_documents: Count = MAX_DOCUMENTS;
        /// Maximum number of chunks in the library
        max_chunks: Count = MAX_CHUNKS;
        /// Build a graph of the entities in the documents, for `graph-rag` (experimental)
        #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true, hide_possible_values = true, value_parser = values::switch)]
        graph: bool = false;
        /// Build the graph with the language model, instead of patterns, from each passage
        #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true, hide_possible_values = true, value_parser = values::switch)]
        graph_model: bool = false;
        /// Maximum number of stored sessions; beyond it, the least recently used one is dropped
        max_sessions: Count = MAX_SESSIONS;
        /// Maximum number of stored messages per session; questions and answers count separately
        session_turns: Count = SESSION_TURNS;
        /// Maximum size of the stored text of a session
        session_size: Size = SESSION_SIZE;
        /// How long an unused session is stored
        session_age: Span = SESSION_AGE;
        /// Maximum wait for the head of a request
        header_timeout: Span = HEADER_TIMEOUT;
        /// Maximum silence while the body of a request arrives
        body_timeout: Span = BODY_TIMEOUT;
        /// How long a client may read nothing before its connection is closed
        write_timeout: Span = WRITE_TIMEOUT;
        /// Silence after which a stream gets a keep-alive
        keep_alive: Span = Span(Timeouts::KEEP_ALIVE);
        /// Maximum silence of the pipeline before a turn fails
        idle_timeout: Span = Span(Timeouts::IDLE);
        /// Maximum duration of a turn
        turn_timeout: Span = Span(Timeouts::TOTAL);
        /// Read images, and PDF pages that are images, in these languages of the program tesseract, such
        /// as eng or deu+eng; needs tesseract and pdftoppm
        ocr: Languages = Languages(None);
        /// Maximum time to read one document
        extract_timeout: Span = EXTRACT_TIMEOUT;
        /// Maximum memory of the process that reads a document (unix only)
        extract_memory: Size = EXTRACT_MEMORY;
        /// Fail on purpose on questions such as `fault:text`, for tests
        #[arg(hide = true, num_args = 0..=1, default_missing_value = "true", value_parser = values::switch)]
        test_faults: bool = false;
    }
    lists {
        /// Files and folders to index at start: text, Markdown, HTML, PDF, Office documents, books,
        /// tables, notebooks, code
        #[arg(value_name = "PATH")]
        docs: PathBuf;
        /// Host names that requests may use besides the address listened on
        #[arg(value_name = "HOST")]
        allow_host: String;
        /// Headers of requests that the orchestrator gets
        #[arg(value_name = "NAME")]
        orchestrator_header: String;
        /// Web origins whose pages may call this server
        #[arg(value_name = "ORIGIN")]
        allow_origin: String;
    }
}

/// Loopback, because a server without a login must not be open to the network by default. No
/// service that commonly runs beside this one is registered for port 8787.
const LISTEN: Listen = Listen(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8787));
/// A folder in the working directory, printed at start, is easy to find and to delete.
const DATA: &str = "data";
/// Kubernetes kills after 30 seconds; ending an answer takes far less.
const DRAIN: Span = Span(Duration::from_secs(10));
/// The pipeline computes for each of them; more at a time would make all of them slower.
const MAX_TURNS: Count = Count(TurnGroup::MAX_ACTIVE);
/// Each holds a connection and its question in memory. As many as are answered concurrently, so
/// that the last one waits for one answer.
const MAX_QUEUED: CountOrZero = CountOrZero(64);
/// Reloading a page or changing the network of a phone takes seconds. After that the answer is
/// abandoned and should not use the CPU.
const DISCONNECT_GRACE: Grace = Grace(Duration::from_secs(30));
/// The model reports its context size, and caps it at what evidence for one answer needs.
const LLM_CONTEXT: CountOrZero = CountOrZero(0);
/// One GPU or CPU writes four answers nearly as fast as one; each further slot costs context
/// memory.
const LLM_SLOTS: Count = Count(4);
/// A build with GPU support should use it. A build without one ignores this setting.
const LLM_GPU_LAYERS: Layers = Layers(None);
/// The other half of the cores serves requests; often they are hyperthreads and not real cores.
const LLM_THREADS: CountOrZero = CountOrZero(0);
/// Half of the time after which a silent turn fails, so that quotes still replace the answer.
const LLM_TIMEOUT: Span = Span(Duration::from_secs(60));
const QDRANT_COLLECTION: &str = "ragwire";
/// Half of the time after which a silent turn fails, so that the orchestrator is named as the cause.
const ORCHESTRATOR_TIMEOUT: Span = Span(Duration::from_secs(60));
/// Transient errors have mostly passed by then, and a person is waiting.
const ORCHESTRATOR_ATTEMPTS: Count = Count(3);
/// Each holds an interpreter and often a model client in memory.
const ORCHESTRATOR_WORKERS: Count = Count(4);
/// A client that takes all that it may leaves as much for the others.
const CLIENT_SHARE: Percent = Percent(ClientShare::percent(EndpointLimits::CLIENT_SHARE));
/// Each holds one document in memory and one process that reads it.
const MAX_UPLOADS: Count = Count(4);
/// Size of the boundary and the headers of each part in a multipart body.
const PART_BYTES: usize = 1024;
/// The usual soft limit on open files is 1,024; the rest of the server needs some of them.
const MAX_CONNECTIONS: Count = Count(900);
/// A book with pictures. The parser has the same limit.
const MAX_UPLOAD_SIZE: Size = Size(32 << 20);
/// Some hundred books; the index of as many documents takes about as much.
const ORIGINALS_SIZE: Size = Size(2 << 30);
/// A folder dropped on the page.
const MAX_UPLOAD_FILES: Count = Count(64);
/// More than a page of text is not a question.
const MAX_QUESTION: Size = Size(8 << 10);
/// The defaults of the library.
const MAX_DOCUMENTS: Count = Count(10_000);
const MAX_CHUNKS: Count = Count(500_000);
/// With `SESSION_SIZE`, 64 MiB in total.
const MAX_SESSIONS: Count = Count(1_000);
const SESSION_TURNS: Count = Count(50);
const SESSION_SIZE: Size = Size(64 << 10);
/// A month: a list of chats that forgets after a day is of little use. The number of sessions is
/// bounded in any case.
const SESSION_AGE: Span = Span(Duration::from_secs(30 * 24 * 3600));
/// A request head is one packet; nginx waits 60 seconds, Apache 20.
const HEADER_TIMEOUT: Span = Span(Duration::from_secs(10));
/// As long as a phone needs to change networks.
const BODY_TIMEOUT: Span = Span(Duration::from_secs(30));
const WRITE_TIMEOUT: Span = Span(Timeouts::WRITE_STALL);
/// A book of 1,000 pages takes some seconds.
const EXTRACT_TIMEOUT: Span = Span(Duration::from_secs(30));
/// Ten times what the largest test document needs.
const EXTRACT_MEMORY: Size = Size(1 << 30);

impl Default for Settings {
    fn default() -> Self {
        Options::default().into()
    }
}

/// How `--help` prints a default.
trait HelpText {
    const KIND: &'static str;

    fn help_text(&self) -> String;
}

macro_rules! help_text {
    ($($Type:ident $kind:literal)*) => { $(impl HelpText for $Type {
        const KIND: &'static str = $kind;

        fn help_text(&self) -> String {
            self.to_string()
        }
    })* };
}

help_text! {
    Listen "ADDRESS" Count "NUMBER" CountOrZero "NUMBER" Size "BYTES" Span "TIME" Grace "TIME"
    Percent "PERCENT" Header "NAME" Name "NAME" RedisUrl "URL" RedisDurability "LEVEL" bool "BOOL" Model "FILE" Address "URL"
    Label "NAME" Secret "KEY" Layers "NUMBER" File "FILE" Folder "DIR" Languages "LANGUAGES" LogFormat "FORMAT" LlmDialect "DIALECT" StoreKind "STORE" JudgeKind "JUDGE"
}

impl HelpText for PathBuf {
    const KIND: &'static str = "DIR";

    fn help_text(&self) -> String {
        self.display().to_string()
    }
}

impl Settings {
    /// Returns the largest body of an upload: its files, and the headers of each in a form.
    pub fn max_upload_body(&self) -> usize {
        *self.max_upload_size + PART_BYTES * (*self.max_upload_files + 1)
    }

    /// Returns the options of the Redis server, or `None` without `redis`. Does not connect.
    ///
    /// # Errors
    ///
    /// [`RedisError`] if the URL or the prefix is not valid.
    pub fn redis_options(&self) -> Result<Option<RedisOptions>, RedisError> {
        // The prefix is checked even without a URL.
        let url = self.redis.as_deref();
        let options = RedisOptions::new(url.unwrap_or("redis://127.0.0.1"))?
            .prefix(self.redis_prefix.as_str())?
            .lease(*self.redis_lease)
            .retry(*self.redis_retry)
            .require(*self.redis_durability);
        Ok(url.map(|_| options))
    }
}
