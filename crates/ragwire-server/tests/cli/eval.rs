//! `eval`: figures, thresholds, and what is refused.

use std::path::Path;

use super::served::Served;
use super::{program, run};

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_folder_is_served_and_a_missed_threshold_fails() {
    let folder = tempfile::tempdir().unwrap();
    let docs = folder.path().join("docs");
    std::fs::create_dir(&docs).unwrap();
    write(
        &docs,
        "birds.md",
        "# Birds\n\nA robin sings at dawn.\n\n# Fish\n\nA carp eats plants all day.",
    );
    let file = write(
        folder.path(),
        "q.json",
        r#"[{"question": "When does a robin sing?", "file": "birds.md", "phrase": "at dawn", "kind": "when"},
            {"question": "And what does a carp eat?", "after": "What does a robin do?", "phrase": "eats plants"},
            {"question": "And what does it eat?", "phrase": "eats plants", "history": [
                {"role": "user", "text": "Is a carp in the notes?"}, {"role": "assistant", "text": "Yes."}]},
            {"question": "What is the capital of France?", "unanswerable": true}]"#,
    );
    let docs = docs.to_str().unwrap();
    let (code, stdout, stderr) = run(&mut program(&["eval", &file, "--docs", docs]));
    assert_eq!(code, 0, "{stdout}\n{stderr}");
    for line in [
        "4 questions, 3 with an answer and 1 without",
        "fact in the answer (fact)                   1.00 (0.44–1.00)",
        "not answered of those without (refused)     1.00",
        "when              1   1.00   1.00   1.00",
    ] {
        assert!(stdout.contains(line), "{line}\n{stdout}");
    }
    let wrong = write(
        folder.path(),
        "wrong.json",
        r#"{"questions": [{"question": "When does a robin sing?", "phrase": "at midnight"}]}"#,
    );
    let arguments = [
        "eval",
        &wrong,
        "--docs",
        docs,
        "--min-fact",
        "0.5",
        "--min-hit5",
        "0",
        "--details",
    ];
    let (code, stdout, stderr) = run(&mut program(&arguments));
    assert_eq!(code, 1, "{stdout}\n{stderr}");
    assert!(stderr.contains("fact is 0.000, less than 0.5"), "{stderr}");
    assert!(stderr.contains("A robin sings at dawn."), "{stderr}");
    assert!(!stderr.contains("hit5"), "{stderr}");
}

#[test]
fn what_cannot_be_evaluated_is_refused_with_the_value_and_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "q.json", r#"[{"question": "a", "phrase": "b"}]"#);
    let bare = write(folder.path(), "bare.json", r#"[{"question": "a"}]"#);
    let both =
        r#"[{"question": "a", "phrase": "b", "after": "c", "history": [{"role": "user", "text": "d"}]}]"#;
    let both = write(folder.path(), "both.json", both);
    let missing = folder.path().join("none");
    let cases: [(&[&str], &str); 8] = [
        (&["eval"], "required"),
        (
            &["eval", "/nowhere.json"],
            "cannot read the questions in /nowhere.json",
        ),
        (&["eval", &bare], "question 1, `a`, has no phrase"),
        (
            &["eval", &both],
            "question 1, `a`, has both a question before it and a history: remove one of the two",
        ),
        (
            &["eval", &file, "--min-fact", "80"],
            "`80` is not a share: write a number from 0 to 1",
        ),
        (
            &["eval", &file, "--server", "http://a", "--docs", "b"],
            "cannot be used with",
        ),
        (
            &["eval", &file, "--docs", missing.to_str().unwrap()],
            "none does not exist",
        ),
        (
            &["eval", &file, "--server", "http://127.0.0.1:9"],
            "cannot reach http://127.0.0.1:9",
        ),
    ];
    for (arguments, said) in cases {
        let (code, _, stderr) = run(&mut program(arguments));
        assert_eq!(code, 2, "{arguments:?}: {stderr}");
        assert!(stderr.contains(said), "{arguments:?}: {stderr}");
    }
}

/// Questions as new users type them, on the library of a server that has no documents yet. Each is
/// judged by the passage that is cited and by a fact in the answer. The thresholds are what holds,
/// so that a change that answers fewer of them is noticed.
#[test]
fn the_bundled_library_answers_new_users() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &[]);
    let questions = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/eval/questions/guide.json");
    let arguments = [
        "eval",
        questions,
        "--server",
        &served.address,
        "--details",
        "--min-hit1",
        "0.9",
        "--min-hit5",
        "0.95",
        "--min-cited",
        "0.9",
        "--min-precision",
        "0.75",
        "--min-fact",
        "0.92",
        "--min-refused",
        "1",
    ];
    let (code, stdout, stderr) = run(&mut program(&arguments));
    assert_eq!(code, 0, "{stdout}\n{stderr}");
    assert!(stdout.contains("99 questions, 97 with an answer"), "{stdout}");
}

/// A phrase that has left its document would count as a passage that was not found.
#[test]
fn each_phrase_of_the_guide_is_in_its_document() {
    let guide = include_str!("../eval/questions/guide.json");
    let guide: serde_json::Value = serde_json::from_str(guide).unwrap();
    let library = concat!(env!("CARGO_MANIFEST_DIR"), "/library");
    let one_line = |text: &str| {
        text.replace('`', "")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut checked = 0;
    for question in guide["questions"].as_array().unwrap() {
        let (Some(file), Some(phrase)) = (question["file"].as_str(), question["phrase"].as_str()) else {
            continue;
        };
        if Path::new(file)
            .extension()
            .is_some_and(|extension| extension == "pdf")
        {
            continue;
        }
        let text = std::fs::read_to_string(format!("{library}/{file}")).unwrap();
        assert!(
            one_line(&text).contains(&one_line(phrase)),
            "{file} does not contain: {phrase}"
        );
        checked += 1;
    }
    assert!(checked >= 40, "{checked} phrases were checked");
}
