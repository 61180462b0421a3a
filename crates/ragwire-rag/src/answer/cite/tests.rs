//! Tests of what is a citation and what is not, with the text cut at any position.

use proptest::prelude::*;

use super::*;

fn passed(sources: usize, pieces: &[&str]) -> (String, Vec<usize>, u32) {
    let mut filter = CitationFilter::new(sources);
    let mut sent = String::new();
    for piece in pieces {
        sent += &filter.push(piece);
        assert!(filter.scan.held.len() <= MAX_HELD_BYTES, "{:?}", filter.scan.held);
    }
    sent += &filter.finish();
    assert_eq!(sent, filter.text());
    (sent, filter.cited(), filter.unknown())
}

#[test]
fn citations_are_renumbered_by_first_use() {
    let cases: &[(&str, &str, &[usize], u32)] = &[
        ("A [1].", "A [1].", &[0], 0),
        ("A [3]. B [1]. C [3].", "A [1]. B [2]. C [1].", &[2, 0], 0),
        ("A [1, 2]; B [2][4].", "A [1][2]; B [2][3].", &[0, 1, 3], 0),
        ("A [2;1] [ 3 ].", "A [1][2] [3].", &[1, 0, 2], 0),
        ("A [2-4]. B [1–2].", "A [1][2][3]. B [4][1].", &[1, 2, 3, 0], 0),
        (
            "A【3】 B 【3†source】 C【1†lines 4–7】",
            "A[1] B [1] C[2]",
            &[2, 0],
            0,
        ),
        ("At dawn[1], he sang[2].", "At dawn[1], he sang[2].", &[0, 1], 0),
        ("In 2017[3] with 28.4[2].", "In 2017[1] with 28.4[2].", &[2, 1], 0),
        (
            "BLEU[4] of OpenAI[2] and GPT4[1]",
            "BLEU[1] of OpenAI[2] and GPT4[3]",
            &[3, 1, 0],
            0,
        ),
        ("It's[2] well-known[1].", "It's[1] well-known[2].", &[1, 0], 0),
        (
            "**dawn**[2] (early)[1] dawn.[2]",
            "**dawn**[1] (early)[2] dawn.[1]",
            &[1, 0],
            0,
        ),
        ("歌う[2]。", "歌う[1]。", &[1], 0),
        ("[2] says so.", "[1] says so.", &[1], 0),
        ("See [2](http://x).", "See [1](http://x).", &[1], 0),
        ("A [02].", "A [1].", &[1], 0),
        ("A [1, 1].", "A [1].", &[0], 0),
    ];
    for (text, wanted, cited, unknown) in cases {
        assert_eq!(
            passed(4, &[text]),
            ((*wanted).to_owned(), cited.to_vec(), *unknown),
            "{text:?}"
        );
    }
}

#[test]
fn a_number_without_a_source_is_marked_and_counted() {
    for (sources, text, wanted, unknown) in [
        (2, "A [3].", "A [?].", 1),
        (2, "A [0].", "A [?].", 1),
        (2, "A [2, 9, 7, 1].", "A [1][?][2].", 2),
        (2, "A [99999999999999999999].", "A [?].", 1),
        (2, "A [1-3].", "A [1][2][?].", 1),
        (2, "A [1-4000].", "A [?].", 1),
        (0, "A [1] dawn[2]【3】", "A [?] dawn[?][?]", 3),
        (2, "In [2019].", "In [?].", 1),
    ] {
        let (sent, _, counted) = passed(sources, &[text]);
        assert_eq!((sent.as_str(), counted), (wanted, unknown), "{text:?}");
    }
}

#[test]
fn text_that_is_not_a_citation_passes_unchanged() {
    let long = format!("[{}]", "1, ".repeat(30));
    for text in [
        "",
        "plain text",
        "a[0] = x[1] + b[2];",
        "arr2[1] my_list[1] $x[2] args.items[1] myList[1] self.0[1]",
        "items[0] items[1](x) items[1]=2 items[1] = 2 items[1].name items[1]x items[1]_",
        "m[1][2][3] and m[i][2] and f()[1]",
        "[x] [ ] [] [1a] [a1] [^1] [0-9] [3-1] [1-] [-1] [1,] [,] [1.5] [1/2]",
        "`a [1] b` and ``x ` [2] y`` and `[1]`",
        "```\nlet a = [1, 2];\n```",
        "```rust\n[1] ` [2]\n``\n[3]\n```\nafter",
        "````\n``` [1]\n````",
        "【x】 【1\n†】 【】",
        "[",
        "[1",
        "[1, 2",
        "dawn[1\n]",
        "【3†",
        &long,
        "```\n[1] never closed",
    ] {
        assert_eq!(passed(4, &[text]), (text.to_owned(), Vec::new(), 0), "{text:?}");
    }
}

#[test]
fn a_backtick_that_does_not_close_is_text() {
    let far = format!("the ` key {} [2] {} `", "x".repeat(300), "y".repeat(300));
    for (text, wanted) in [
        ("the ` key [2].\nMore ` [1]", "the ` key [1].\nMore ` [2]"),
        ("the ` key [2] and `` [1] `` x", "the ` key [1] and `` [2] `` x"),
        ("`code` [2]", "`code` [1]"),
        ("```\ncode [1]\n``` [2]", "```\ncode [1]\n``` [1]"),
        (far.as_str(), &far.replace("[2]", "[1]")),
    ] {
        assert_eq!(passed(4, &[text]).0, wanted, "{text:?}");
    }
}

#[test]
fn hostile_texts_are_passed_in_linear_time() {
    for piece in [
        "[",
        "[1",
        "[1]",
        "`",
        "` [1",
        "` [1] ",
        "【",
        "[1,",
        "word[1]",
        "`[1]`",
        "[1-9]",
        "\u{301}[1]",
    ] {
        let text = piece.repeat(5_000);
        let started = std::time::Instant::now();
        let whole = passed(3, &[&text]);
        let cut: Vec<&str> = piece.split_inclusive(char::is_alphanumeric).collect();
        let pieces: Vec<&str> = std::iter::repeat_n(cut, 5_000).flatten().collect();
        assert_eq!(passed(3, &pieces), whole, "{piece:?}");
        let took = started.elapsed();
        assert!(took.as_secs() < 30, "{piece:?} took {took:?}");
    }
}

#[test]
fn numbers_of_a_source_and_of_an_answer_are_distinguished() {
    assert_eq!(
        in_parentheses("As in [12] and [3, 4], a[0]."),
        "As in (12) and (3, 4), a[0]."
    );
    assert_eq!(in_parentheses("`x [1]` 【2】"), "`x [1]` (2)");
    assert_eq!(
        without_marks("It sings [1][2]. So [?]. a[0] [3]."),
        "It sings. So. a[0]."
    );
    assert_eq!(without_marks(""), "");
}

#[test]
fn a_quote_is_the_supporting_sentence_of_the_source() {
    let analyzer = Analyzer::default();
    let source = "Birds are many. A robin sings at dawn. An owl hunts at night. A robin eats worms.";
    let mut filter = CitationFilter::new(2);
    filter.push("Owls hunt by night. [2] At dawn the robin is heard singing [1], and it feeds on worms [1].");
    filter.finish();
    assert_eq!(
        filter.text(),
        "Owls hunt by night. [1] At dawn the robin is heard singing [2], and it feeds on worms [2]."
    );
    let quotes: Vec<String> = (0..2)
        .map(|n| supporting_quote(&analyzer, filter.citing_sentence(n), source))
        .collect();
    assert_eq!(quotes, ["An owl hunts at night.", "A robin sings at dawn."]);
    assert_eq!(filter.citing_sentence(7), "");
    for (citing, source, quote) in [
        ("Nothing shared [1].", "One here. Two there.", "One here."),
        ("Same words [1].", "Same words. Same words.", "Same words."),
        ("", "", ""),
    ] {
        assert_eq!(supporting_quote(&analyzer, citing, source), quote, "{citing:?}");
    }
    for (text, at, wanted) in [
        ("[1] leads alone.", 0, "[1] leads alone."),
        ("One. [1][2] Two.", 8, "One."),
        ("One. Two [1]. Three.", 9, "Two [1]."),
        ("One.\n- Two [1]", 11, "- Two [1]"),
    ] {
        assert_eq!(sentence_at(text, at), wanted, "{text:?}");
    }
}

fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "[", "]", "[1]", "[2]", "[9]", "[1, 2]", "[1-3]", "【2】", "【", "】", "†", "`", "``", "```", "\n",
        " ", ".", "=", "(", ")", "a", "dawn", "x1", "_", "0", "1", "2", ",", "-", "–", "é", "歌", "[x]",
        "[?]", "[0]",
    ]);
    prop::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn the_output_does_not_depend_on_the_pieces(text in words(), cuts in prop::collection::vec(0usize..200, 0..12)) {
        let whole = passed(3, &[&text]);
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|at| text.is_char_boundary(*at)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        prop_assert_eq!(&passed(3, &pieces), &whole);
        let single: Vec<&str> = text.split_inclusive(|_: char| true).collect();
        prop_assert_eq!(passed(3, &single), whole);
    }

    #[test]
    fn text_without_digits_in_brackets_passes_unchanged(text in "[a-z`\\[\\]\n .,【】()†é]{0,80}") {
        prop_assert_eq!(passed(3, &[&text]), (text.clone(), Vec::new(), 0));
    }

    #[test]
    fn numbers_in_the_output_ascend_and_have_sources(
        marks in prop::collection::vec(prop::collection::vec(0u32..6, 1..4), 0..12),
    ) {
        let text: String = marks.iter().map(|mark| format!("So {mark:?}. ")).collect();
        let (sent, cited, unknown) = passed(3, &[&text]);
        let shown: Vec<usize> = sent.split(['[', ']']).filter_map(|part| part.parse().ok()).collect();
        let mut most = 0;
        for number in shown {
            prop_assert!(number >= 1 && number <= most + 1, "{}", sent);
            most = most.max(number);
        }
        prop_assert_eq!(most, cited.len());
        prop_assert!(cited.iter().all(|source| *source < 3));
        let invented = marks.iter().flatten().filter(|number| !(1..=3).contains(*number)).count();
        prop_assert_eq!(unknown as usize, invented);
    }
}

#[test]
fn citations_are_renumbered_by_first_use_across_pieces() {
    let mut filter = CitationFilter::new(3);
    let mut sent = String::new();
    for piece in ["Robins sing [", "3]. So do wrens [1, 9]", "[3]."] {
        sent += &filter.push(piece);
    }
    sent += &filter.finish();
    assert_eq!(sent, "Robins sing [1]. So do wrens [2][?][1].");
    assert_eq!(filter.cited(), [2, 0]);
    assert_eq!(filter.unknown(), 1);
}
