//! Each promise of `docs/reliability.md` names tests that exist.

use std::path::Path;

#[test]
fn each_promise_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/reliability.md")).unwrap();
    // The rows of the tables of promises; others have measurements.
    let tables = page.split("\n| promise").skip(1);
    let rows = tables.flat_map(|table| {
        let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
        rows.filter(|line| line.starts_with("| "))
    });
    let mut missing = Vec::new();
    let mut promises = 0;
    for row in rows {
        let mut tests = row
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|code| code.contains("::"))
            .peekable();
        assert!(tests.peek().is_some(), "a promise without a test: {row}");
        promises += 1;
        for test in tests {
            let (file, name) = test.split_once("::").unwrap();
            let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
            let is_test = text.split(&format!("fn {name}(")).next().is_some_and(|before| {
                before.len() < text.len() && before.trim_end_matches("async ").trim_end().ends_with(']')
            });
            if !is_test {
                missing.push(test);
            }
        }
    }
    assert_eq!(missing, [""; 0]);
    assert!(promises >= 30, "{promises} promises were read");
}
