//! The figures of an evaluation: what is counted for each question, their sums, and a table.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::questions::EvalQuestion;
use crate::ask::CollectedAnswer;

/// z of a two-sided interval of 95 %.
const Z: f64 = 1.96;

/// What is counted for one question.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// Whether a document answers it.
    pub answerable: bool,
    /// Rank of the first answering source, counted from 1.
    pub rank: Option<usize>,
    /// Number of citations.
    pub citations: usize,
    /// Number of citations of an answering passage.
    pub answering: usize,
    /// Whether the text holds the fact.
    pub fact: bool,
    /// Whether the server answered.
    pub answered: bool,
    /// Whether it showed the closest passages instead.
    pub closest: bool,
    /// The time of the turn.
    pub took: Duration,
}

impl Judged {
    /// Judges an answer.
    pub fn of(question: &EvalQuestion, answer: &CollectedAnswer) -> Self {
        let from_file = |title: &str| {
            let files = question.file.all();
            files.is_empty() || files.iter().any(|file| title.ends_with(file.as_str()))
        };
        let answers = |title: Option<&str>, text: &str| {
            from_file(title.unwrap_or_default()) && question.phrase.any_in(text)
        };
        let rank = answer
            .sources
            .iter()
            .position(|source| answers(source.title.as_deref(), &source.text));
        let cited = answer.citations.iter().filter(|citation| {
            let source = answer
                .sources
                .iter()
                .find(|source| source.chunk_id == citation.chunk_id);
            source.is_some_and(|source| answers(source.title.as_deref(), &source.text))
        });
        let fact = if question.fact.all().is_empty() {
            &question.phrase
        } else {
            &question.fact
        };
        Self {
            answerable: !question.unanswerable,
            rank: rank.map(|rank| rank + 1),
            citations: answer.citations.len(),
            answering: cited.count(),
            fact: fact.any_in(&answer.text),
            answered: answer.answered,
            closest: answer.closest,
            took: answer.took,
        }
    }

    fn refused(&self) -> bool {
        !self.answered && !self.closest
    }
}

/// A share of questions, with the 95 % interval of Wilson.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// How many.
    pub count: usize,
    /// Of how many.
    pub of: usize,
}

impl Share {
    /// The share, 0 for none of none.
    pub fn value(self) -> f64 {
        if self.of == 0 {
            0.0
        } else {
            self.count as f64 / self.of as f64
        }
    }

    /// The interval.
    pub fn interval(self) -> (f64, f64) {
        if self.of == 0 {
            return (0.0, 1.0);
        }
        let (n, p) = (self.of as f64, self.value());
        let middle = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
        let half = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        ((middle - half).max(0.0), (middle + half).min(1.0))
    }

    fn json(self) -> Value {
        let (low, high) = self.interval();
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        json!({ "value": round(self.value()), "low": round(low), "high": round(high), "count": self.count, "of": self.of })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.interval();
        write!(f, "{:.2} ({low:.2}–{high:.2})", self.value())
    }
}

/// The figures of some questions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Figures {
    /// Number of questions.
    pub questions: usize,
    /// The first source answers.
    pub hit1: Share,
    /// One of the first five sources answers.
    pub hit5: Share,
    /// Mean reciprocal rank of the first source that answers.
    pub mrr: f64,
    /// An answering passage is cited.
    pub cited: Share,
    /// Citations that cite an answering passage.
    pub precision: Share,
    /// The text holds the fact.
    pub fact: Share,
    /// Questions with an answer that were refused in words.
    pub false_refusals: Share,
    /// Questions with an answer for which the closest passages were shown.
    pub closest: Share,
    /// Questions without an answer that were not answered: refused in words, or the closest passages
    /// shown as such.
    pub refused: Share,
    /// Questions without an answer that were refused in words.
    pub refused_in_words: Share,
    /// The median time of a turn.
    pub median: Duration,
    /// The time that 95 of 100 turns do not exceed.
    pub p95: Duration,
}

impl Figures {
    /// Sums up.
    pub fn of<'a>(judged: impl IntoIterator<Item = &'a Judged>) -> Self {
        let all: Vec<&Judged> = judged.into_iter().collect();
        let (with, without): (Vec<&Judged>, Vec<&Judged>) = all.iter().partition(|one| one.answerable);
        let share = |list: &[&Judged], is: &dyn Fn(&Judged) -> bool| Share {
            count: list.iter().filter(|one| is(one)).count(),
            of: list.len(),
        };
        let reciprocal: f64 = with
            .iter()
            .filter_map(|one| one.rank)
            .map(|rank| 1.0 / rank as f64)
            .sum();
        let mut times: Vec<Duration> = all.iter().map(|one| one.took).collect();
        times.sort();
        let at = |share: f64| {
            let last = times.len().saturating_sub(1);
            times
                .get((last as f64 * share).round() as usize)
                .copied()
                .unwrap_or_default()
        };
        Self {
            questions: all.len(),
            hit1: share(&with, &|one| one.rank == Some(1)),
            hit5: share(&with, &|one| one.rank.is_some_and(|rank| rank <= 5)),
            mrr: reciprocal / with.len().max(1) as f64,
            cited: share(&with, &|one| one.answering > 0),
            precision: Share {
                count: with.iter().map(|one| one.answering).sum(),
                of: with.iter().map(|one| one.citations).sum(),
            },
            fact: share(&with, &|one| one.fact),
            false_refusals: share(&with, &Judged::refused),
            closest: share(&with, &|one| one.closest),
            refused: share(&without, &|one| !one.answered),
            refused_in_words: share(&without, &Judged::refused),
            median: at(0.5),
            p95: at(0.95),
        }
    }

    /// The figures as JSON, under the names of the thresholds.
    pub fn json(&self) -> Value {
        json!({
            "questions": self.questions,
            "hit1": self.hit1.json(),
            "hit5": self.hit5.json(),
            "mrr": (self.mrr * 1000.0).round() / 1000.0,
            "cited": self.cited.json(),
            "precision": self.precision.json(),
            "fact": self.fact.json(),
            "false_refusals": self.false_refusals.json(),
            "closest": self.closest.json(),
            "refused": self.refused.json(),
            "refused_in_words": self.refused_in_words.json(),
            "median_ms": self.median.as_millis() as u64,
            "p95_ms": self.p95.as_millis() as u64,
        })
    }
}

/// The figures of all questions, and of each kind.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// All questions.
    pub all: Figures,
    /// By kind, in alphabetical order.
    pub kinds: BTreeMap<String, Figures>,
}

impl Report {
    /// Sums up questions with their judgements.
    pub fn of(judged: &[(EvalQuestion, Judged)]) -> Self {
        let mut kinds: BTreeMap<String, Vec<&Judged>> = BTreeMap::new();
        for (question, one) in judged {
            if let Some(kind) = &question.kind {
                kinds.entry(kind.clone()).or_default().push(one);
            }
        }
        Self {
            all: Figures::of(judged.iter().map(|(_, one)| one)),
            kinds: kinds
                .into_iter()
                .map(|(kind, list)| (kind, Figures::of(list)))
                .collect(),
        }
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let kinds: serde_json::Map<String, Value> = self
            .kinds
            .iter()
            .map(|(kind, figures)| (kind.clone(), figures.json()))
            .collect();
        json!({ "all": self.all.json(), "kinds": kinds })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = &self.all;
        let row = |f: &mut fmt::Formatter<'_>, name: &str, value: &dyn fmt::Display| {
            writeln!(f, "{name:<44}{value}")
        };
        writeln!(
            f,
            "{} questions, {} with an answer and {} without (95 % intervals in parentheses)\n",
            all.questions, all.fact.of, all.refused.of
        )?;
        row(f, "first source answers (hit1)", &all.hit1)?;
        row(f, "one of the first five answers (hit5)", &all.hit5)?;
        row(f, "mean reciprocal rank (mrr)", &format!("{:.2}", all.mrr))?;
        row(f, "an answering passage is cited (cited)", &all.cited)?;
        row(f, "citations that answer (precision)", &all.precision)?;
        row(f, "fact in the answer (fact)", &all.fact)?;
        row(f, "closest passages instead of an answer", &all.closest)?;
        row(f, "refused although answerable", &all.false_refusals)?;
        row(f, "not answered of those without (refused)", &all.refused)?;
        row(f, "  of these in words", &all.refused_in_words)?;
        let time = format!("{} ms, p95 {} ms", all.median.as_millis(), all.p95.as_millis());
        row(f, "median time of a turn", &time)?;
        if self.kinds.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\n{:<14}{:>5}{:>7}{:>7}{:>7}{:>10}{:>7}{:>9}",
            "kind", "n", "hit1", "hit5", "cited", "precision", "fact", "refused"
        )?;
        for (kind, figures) in &self.kinds {
            let share = |share: Share| {
                if share.of == 0 {
                    "–".to_owned()
                } else {
                    format!("{:.2}", share.value())
                }
            };
            let without = figures.fact.of == 0;
            let refused = if without {
                figures.refused
            } else {
                figures.false_refusals
            };
            writeln!(
                f,
                "{kind:<14}{:>5}{:>7}{:>7}{:>7}{:>10}{:>7}{:>9}",
                figures.questions,
                share(figures.hit1),
                share(figures.hit5),
                share(figures.cited),
                share(figures.precision),
                share(figures.fact),
                share(refused)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_wilsons() {
        for (count, of, low, high) in [
            (0, 0, 0.0, 1.0),
            (0, 10, 0.0, 0.28),
            (5, 10, 0.24, 0.76),
            (93, 100, 0.86, 0.97),
        ] {
            let (found_low, found_high) = Share { count, of }.interval();
            assert!(
                (found_low - low).abs() < 0.005 && (found_high - high).abs() < 0.005,
                "{count} of {of}: {found_low} {found_high}"
            );
        }
    }

    #[test]
    fn figures_are_counted_over_the_right_questions() {
        let with = |rank: Option<usize>, fact: bool, answered: bool| Judged {
            answerable: true,
            rank,
            citations: 2,
            answering: usize::from(rank == Some(1)),
            fact,
            answered,
            ..Judged::default()
        };
        let without = |answered: bool, closest: bool| Judged {
            answered,
            closest,
            ..Judged::default()
        };
        let all = [
            with(Some(1), true, true),
            with(Some(4), false, true),
            with(None, false, false),
            without(true, false),
            without(false, true),
            without(false, false),
        ];
        let figures = Figures::of(&all);
        let counts = [
            figures.hit1,
            figures.hit5,
            figures.cited,
            figures.precision,
            figures.fact,
            figures.false_refusals,
            figures.refused,
            figures.refused_in_words,
        ]
        .map(|share| (share.count, share.of));
        assert_eq!(
            counts,
            [(1, 3), (2, 3), (1, 3), (1, 6), (1, 3), (1, 3), (2, 3), (1, 3)]
        );
        assert!((figures.mrr - 1.25 / 3.0).abs() < 1e-9);
    }
}
