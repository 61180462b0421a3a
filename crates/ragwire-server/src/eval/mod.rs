//! The command `eval`: asks a server the user's own questions and measures its answers.
//!
//! | module | contents |
//! |---|---|
//! | [`questions`] | the file of questions |
//! | [`figures`] | what is counted, and the table |
//! | `folder` | a private server for a folder of documents |

pub mod figures;
mod folder;
pub mod questions;

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use ragwire::Status;
use serde_json::json;

use crate::ask::{self, AskError, Conversation};
use crate::client::{Server, ServerFlags};
use crate::output::{print_line, report_line};
use crate::settings::values::BadValue;
use figures::{Figures, Judged, Report, Share};
use folder::OwnServer;
use questions::{EvalQuestion, QuestionsError};

/// Exit statuses; 0 means that every threshold is met.
const MISSED: u8 = 1;
const USAGE: u8 = 2;

/// The flags of `eval`.
#[derive(Debug, clap::Args)]
pub struct EvalOptions {
    /// Files of questions (JSON)
    #[arg(required = true, value_name = "FILE")]
    questions: Vec<PathBuf>,
    #[command(flatten)]
    server: ServerFlags,
    /// Ask a private server about these files and folders
    #[arg(long, value_name = "PATH", conflicts_with = "server")]
    docs: Vec<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Print each question whose answer lacks the fact
    #[arg(long)]
    details: bool,
    /// Fail if fewer first sources answer, 0 to 1
    #[arg(long, value_name = "SHARE")]
    min_hit1: Option<Threshold>,
    /// Fail if fewer questions have an answer among the first five sources
    #[arg(long, value_name = "SHARE")]
    min_hit5: Option<Threshold>,
    /// Fail if the mean reciprocal rank is lower
    #[arg(long, value_name = "SHARE")]
    min_mrr: Option<Threshold>,
    /// Fail if fewer questions have an answering passage cited
    #[arg(long, value_name = "SHARE")]
    min_cited: Option<Threshold>,
    /// Fail if fewer citations answer
    #[arg(long, value_name = "SHARE")]
    min_precision: Option<Threshold>,
    /// Fail if fewer answers hold the fact
    #[arg(long, value_name = "SHARE")]
    min_fact: Option<Threshold>,
    /// Fail if fewer questions without an answer are left unanswered
    #[arg(long, value_name = "SHARE")]
    min_refused: Option<Threshold>,
    /// Fail if more questions with an answer are refused
    #[arg(long, value_name = "SHARE")]
    max_false_refusals: Option<Threshold>,
}

/// A share between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Threshold(f64);

impl FromStr for Threshold {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let value = text.parse().ok().filter(|value| (0.0..=1.0).contains(value));
        value.map(Self).ok_or_else(|| {
            BadValue::new(format!(
                "`{text}` is not a share: write a number from 0 to 1, such as 0.8"
            ))
        })
    }
}

/// An evaluation that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// The questions cannot be used.
    #[error(transparent)]
    Questions(#[from] QuestionsError),
    /// The private server did not start.
    #[error("cannot serve {docs}: {reason}")]
    Folder {
        /// The documents.
        docs: String,
        /// What the server said.
        reason: String,
    },
    /// The server was not reached or did not answer.
    #[error("{source}; question: `{question}`")]
    Ask {
        /// The question.
        question: String,
        /// The cause.
        source: AskError,
    },
    /// A turn failed.
    #[error("the turn failed: {message}; question: `{question}`")]
    Turn {
        /// The question.
        question: String,
        /// The failure.
        message: String,
    },
}

/// Asks the questions, prints the figures and returns the exit status.
pub async fn run(mut options: EvalOptions, environment: ServerFlags) -> ExitCode {
    options.server = options.server.over(environment);
    let judged = match judge(&options).await {
        Ok(judged) => judged,
        Err(error) => {
            report_line!("error: {error}");
            return ExitCode::from(USAGE);
        }
    };
    let report = Report::of(&judged);
    let missed = options.missed(&report.all);
    if options.json {
        let mut value = report.json();
        value["missed"] = json!(missed);
        print_line!("{value:#}");
    } else {
        print_line!("{}", report.to_string().trim_end());
    }
    for line in &missed {
        report_line!("{line}");
    }
    if missed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(MISSED)
    }
}

async fn judge(options: &EvalOptions) -> Result<Vec<(EvalQuestion, Judged)>, EvalError> {
    let mut all = Vec::new();
    for file in &options.questions {
        all.extend(questions::read(file)?);
    }
    let own = if options.docs.is_empty() {
        None
    } else {
        Some(OwnServer::start(&options.docs)?)
    };
    let server = match &own {
        Some(own) => own.address().clone(),
        None => options.server.server(),
    };
    // Sessions of two evaluations of one server must not meet.
    let run = std::process::id();
    let mut judged = Vec::with_capacity(all.len());
    for (at, question) in all.into_iter().enumerate() {
        let session = format!("eval-{run}-{at}");
        let conversation = match &*question.history {
            [] => Conversation::Session(&session),
            history => Conversation::History(history),
        };
        if let Some(before) = &question.after {
            collect(&server, before, conversation).await?;
        }
        let answer = collect(&server, &question.question, conversation).await?;
        let one = Judged::of(&question, &answer);
        let wrong = if one.answerable { !one.fact } else { one.answered };
        if options.details && wrong {
            report_line!("{}\n  {}\n", question.question, answer.text.replace('\n', "\n  "));
        }
        judged.push((question, one));
    }
    Ok(judged)
}

async fn collect(
    server: &Server,
    question: &str,
    conversation: Conversation<'_>,
) -> Result<ask::CollectedAnswer, EvalError> {
    let answer = ask::collect(server, question, conversation)
        .await
        .map_err(|source| EvalError::Ask {
            question: question.to_owned(),
            source,
        })?;
    let message = match &answer.status {
        Status::Completed => return Ok(answer),
        Status::Failed(failure) => failure.message.to_string(),
        Status::Stopped => "it was stopped".to_owned(),
    };
    Err(EvalError::Turn {
        question: question.to_owned(),
        message,
    })
}

impl EvalOptions {
    /// Returns a line for each threshold that is not met.
    fn missed(&self, figures: &Figures) -> Vec<String> {
        let least: [(&str, Option<Threshold>, f64); 7] = [
            ("hit1", self.min_hit1, figures.hit1.value()),
            ("hit5", self.min_hit5, figures.hit5.value()),
            ("mrr", self.min_mrr, figures.mrr),
            ("cited", self.min_cited, figures.cited.value()),
            ("precision", self.min_precision, figures.precision.value()),
            ("fact", self.min_fact, figures.fact.value()),
            ("refused", self.min_refused, figures.refused.value()),
        ];
        let mut missed: Vec<String> = least
            .into_iter()
            .filter_map(|(name, least, value)| {
                let least = least.filter(|least| value < least.0)?;
                Some(format!("{name} is {value:.3}, less than {}", least.0))
            })
            .collect();
        let refusals: Share = figures.false_refusals;
        if let Some(most) = self.max_false_refusals.filter(|most| refusals.value() > most.0) {
            missed.push(format!(
                "false_refusals is {:.3}, more than {}",
                refusals.value(),
                most.0
            ));
        }
        missed
    }
}
