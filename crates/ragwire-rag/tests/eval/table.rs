//! The measured tables, and their comparison with a page: `docs/evaluation.md`, or
//! `without-paper.md` if the paper is missing.
//!
//! The page is the record of the figures. The measurements are compared with it, so that a figure
//! can neither fall unnoticed nor be reported wrongly.

use std::fmt;
use std::path::PathBuf;

/// The figures of one method.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) figures: Vec<f64>,
    /// Whether a model was used: its last digits depend on the processor.
    pub(crate) by_model: bool,
}

/// A table of a page.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// How far a model's figure may differ from the page: one question.
    pub(crate) tolerance: f64,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} |", self.name)?;
        self.figures
            .iter()
            .try_for_each(|figure| write!(f, " {figure:.2} |"))
    }
}

impl Table {
    fn head_line(&self) -> String {
        format!("| {} |", self.head.join(" | "))
    }

    /// Compares the table with the one that has the same head in `page`. Rows with a model are
    /// ignored if no model was measured.
    pub(crate) fn check(&self, page: &str) -> Result<(), String> {
        let head = self.head_line();
        let mut lines = page.lines().skip_while(|line| **line != head);
        let rule = "|---".repeat(self.head.len()) + "|";
        if lines.next().is_none() || lines.next() != Some(&rule) {
            return Err(format!("no table {head}"));
        }
        let has_model = self.rows.iter().any(|row| row.by_model);
        let written = lines
            .take_while(|line| line.starts_with('|'))
            .filter(|line| has_model || !line.contains(MODEL));
        let mut written = written.fuse();
        for row in &self.rows {
            let line = written.next().unwrap_or("nothing");
            if !self.is_written(row, line) {
                return Err(format!("measured {row}, but the page has {line}"));
            }
        }
        match written.next() {
            Some(line) => Err(format!("not measured: {line}")),
            None => Ok(()),
        }
    }

    fn is_written(&self, row: &Row, line: &str) -> bool {
        if !row.by_model {
            return line == row.to_string();
        }
        let Some(figures) = line.strip_prefix(&format!("| {} |", row.name)) else {
            return false;
        };
        let figures = figures.trim_end_matches('|').split('|');
        let Ok(figures) = figures
            .map(|figure| figure.trim().parse::<f64>())
            .collect::<Result<Vec<_>, _>>()
        else {
            return false;
        };
        // Half a hundredth for the rounding of the written figure.
        let near = |(written, found): (&f64, &f64)| (written - found).abs() <= self.tolerance + 0.005;
        figures.len() == row.figures.len() && figures.iter().zip(&row.figures).all(near)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.head_line())?;
        writeln!(f, "{}|", "|---".repeat(self.head.len()))?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

/// Part of the name of every row that uses a model.
pub(crate) const MODEL: &str = "MiniLM";

/// Reads the page with the figures.
pub(crate) fn page(has_paper: bool) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let name = if has_paper {
        "../../docs/evaluation.md"
    } else {
        "tests/eval/without-paper.md"
    };
    std::fs::read_to_string(root.join(name)).unwrap()
}

#[test]
fn a_page_is_compared_line_by_line() {
    let row = |name: &str, figures: &[f64]| Row {
        name: name.to_owned(),
        figures: figures.to_vec(),
        by_model: name.contains(MODEL),
    };
    let table = |rows: &[Row]| Table {
        head: vec!["what".to_owned(), "hit@1".to_owned(), "MRR".to_owned()],
        rows: rows.to_vec(),
        tolerance: 0.02,
    };
    let (words, model) = (row("words", &[0.5, 0.754]), row("MiniLM", &[0.6, 0.8]));
    let page = "# A\n\n| what | hit@1 | MRR |\n|---|---|---|\n| words | 0.50 | 0.75 |\n| MiniLM | 0.61 | 0.78 |\n\nb\n";
    let both = table(&[words.clone(), model.clone()]);
    assert_eq!(
        both.to_string(),
        "| what | hit@1 | MRR |\n|---|---|---|\n| words | 0.50 | 0.75 |\n| MiniLM | 0.60 | 0.80 |\n"
    );
    assert_eq!(both.check(page), Ok(()));
    assert_eq!(table(std::slice::from_ref(&words)).check(page), Ok(()));
    let wrong = |rows: &[Row], page: &str| table(rows).check(page).unwrap_err();
    assert_eq!(
        wrong(&[row("words", &[0.49, 0.754])], page),
        "measured | words | 0.49 | 0.75 |, but the page has | words | 0.50 | 0.75 |"
    );
    assert_eq!(
        wrong(&[words.clone(), row("MiniLM", &[0.58, 0.8])], page),
        "measured | MiniLM | 0.58 | 0.80 |, but the page has | MiniLM | 0.61 | 0.78 |"
    );
    assert_eq!(
        wrong(&[words.clone(), model.clone(), words.clone()], page),
        "measured | words | 0.50 | 0.75 |, but the page has nothing"
    );
    assert_eq!(
        wrong(&[model], page),
        "measured | MiniLM | 0.60 | 0.80 |, but the page has | words | 0.50 | 0.75 |"
    );
    assert_eq!(wrong(&[], page), "not measured: | words | 0.50 | 0.75 |");
    assert_eq!(wrong(&[words], "none"), "no table | what | hit@1 | MRR |");
}
