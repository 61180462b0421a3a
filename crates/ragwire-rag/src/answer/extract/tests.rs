use super::*;
use crate::search::relevance::{Known, by_relevance};
use crate::{Library, LibraryLimits, ParseLimits, parse, test_data};

pub(super) fn library(name: &str, bytes: &[u8]) -> Library {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    library
        .add(name, &parse(name, bytes, &ParseLimits::default()).unwrap())
        .unwrap();
    library
}

pub(super) fn answer(library: &Library, question: &str) -> String {
    let hits = library.search(question, 8).unwrap();
    answer_from(
        &hits,
        &extract(library.all(), question, None, &hits, &Nearness::default()),
    )
}

pub(super) fn answer_from(hits: &[Hit], extract: &Extract) -> String {
    let text: Vec<_> = extract
        .quoted
        .iter()
        .map(|one| {
            format!(
                "({:.2}) {}",
                one.coverage,
                &hits[one.hit].chunk.text[one.range.clone()]
            )
        })
        .collect();
    text.join("\n")
}

#[test]
fn a_real_paper_answers_its_own_questions_and_no_others() {
    let Some(bytes) = test_data::attention_paper() else {
        return;
    };
    let library = library("attention.pdf", &bytes);
    let answered = [
        ("What optimizer was used?", "We used the Adam optimizer"),
        (
            "What BLEU score does the big model reach on English-to-German?",
            "28.4",
        ),
        ("What hardware were the models trained on?", "8 NVIDIA P100 GPUs"),
        ("How many layers does the encoder have?", "N = 6 identical layers"),
        ("What is label smoothing used for?", "label smoothing"),
        ("Why is the dot product scaled?", "we scale the dot products"),
        (
            "How large was the training dataset?",
            "4.5 million sentence pairs",
        ),
        ("What dropout rate is used for the base model?", "Pdrop = 0.1"),
        (
            "What does the Transformer dispense with?",
            "dispensing with recurrence",
        ),
    ];
    let refused = [
        "What is the capital of France?",
        "Who won the 2018 world cup?",
        "How do I bake sourdough bread?",
        "What is the boiling point of water?",
        "Who is the president of the United States?",
        "How tall is Mount Everest?",
    ];
    let mut wrong = Vec::new();
    for (question, wanted) in answered {
        let text = answer(&library, question);
        println!("{question}\n{text}\n");
        if !text.contains(wanted) {
            wrong.push(question);
        }
    }
    for question in refused {
        let hits = library.search(question, 8).unwrap();
        if extract(library.all(), question, None, &hits, &Nearness::default()).verdict == Verdict::Answer {
            wrong.push(question);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_small_library_answers_too() {
    let library = library(
        "birds.md",
        b"# Birds\n\nA robin sings at dawn. An owl hunts at night.\n\n# Fish\n\nA carp eats plants all day.",
    );
    for (question, wanted) in [
        ("When do robins sing?", "A robin sings at dawn."),
        ("What does the owl do at night?", "An owl hunts at night."),
        ("What do carps eat?", "A carp eats plants all day."),
    ] {
        let text = answer(&library, question);
        assert!(text.contains(wanted), "{question}: {text}");
    }
    for question in [
        "What is the capital of France?",
        "When do penguins sing?",
        "",
        "the of and",
        "\u{1d}\u{1e}",
    ] {
        assert_eq!(answer(&library, question), "", "{question}");
    }
    // The library has no such verbs, and needs none.
    for question in ["Explain the owl", "Describe robins", "Summarise carps"] {
        let hits = library.search(question, 5).unwrap();
        let found = extract(library.all(), question, None, &hits, &Nearness::default());
        assert_eq!(
            (found.verdict, found.unknown),
            (Verdict::Answer, Vec::new()),
            "{question}"
        );
    }
    // One unknown word of three or four leaves an answer, even if it is the weightiest.
    let owls = Library::in_memory(LibraryLimits::default()).unwrap();
    let parsed = parse(
        "owl.md",
        b"The owl turns its head by 270 degrees.",
        &ParseLimits::default(),
    )
    .unwrap();
    owls.add("owl.md", &parsed).unwrap();
    let text = answer(&owls, "How far does the owl turn its head?");
    assert!(text.contains("270 degrees"), "{text}");
    let text = answer(&library, "Does a carp eat plants, Unicorn?");
    assert!(text.contains("A carp eats plants all day."), "{text}");
}

#[test]
fn what_something_costs_is_answered_by_a_price() {
    let library = library("tickets.md", b"A ticket costs 3 euros.");
    let lamps = parse("lamps.md", b"Each lamp costs much time.", &ParseLimits::default()).unwrap();
    library.add("lamps.md", &lamps).unwrap();
    for (question, verdict) in [
        ("what does a ticket cost", Verdict::Answer),
        ("how much does a ticket cost", Verdict::Answer),
        ("how much does a lamp cost", Verdict::Closest),
        // It may cost time or memory.
        ("what does a lamp cost", Verdict::Answer),
        ("what is the price of a lamp", Verdict::Closest),
        // No price is asked for.
        ("which lamp costs time", Verdict::Answer),
    ] {
        let hits = library.search(question, 5).unwrap();
        let found = extract(library.all(), question, None, &hits, &Nearness::default());
        assert_eq!(found.verdict, verdict, "{question}");
    }
}

#[test]
fn how_many_is_answered_by_what_counts_them() {
    let text = "# Songs\n\nRobins sing, and a robin that sings with other robins is a happy robin.\n\n\
        # Pictures\n\nFigure 5: Many robins on a fence. Two such robins are drawn in red.\n\n\
        # Crowds\n\nWith too many robins, quality drops by 0.9 points.\n\n\
        # Staff\n\nWe employ n = 8 happy birds, or robins.";
    let library = library("robins.md", text.as_bytes());
    for question in [
        "how many robins",
        "number of robins",
        "What is the number of robins?",
    ] {
        let hits = library.search(question, 5).unwrap();
        let found = extract(library.all(), question, None, &hits, &Nearness::default());
        assert_eq!(found.verdict, Verdict::Answer, "{question}");
        let quoted = found
            .quoted
            .iter()
            .map(|quote| &hits[quote.hit].chunk.text[quote.range.clone()]);
        assert_eq!(
            quoted.collect::<Vec<_>>(),
            ["We employ n = 8 happy birds, or robins."],
            "{question}"
        );
    }
}

#[test]
fn captions_and_labels_are_no_sentences() {
    let text = "# Model\n\nScaled Robin Attention\n\nFigure 2: Robin attention in the model, from left to right.\n\nIn the text below it is said that robin attention lets a model read all words at once.";
    let library = library("model.md", text.as_bytes());
    for (question, wanted) in [
        ("How does robin attention work?", "In the text below"),
        ("What does figure 2 show of robin attention?", "Figure 2:"),
    ] {
        let hits = library.search(question, 8).unwrap();
        let found = extract(library.all(), question, None, &hits, &Nearness::default());
        let first = &found.quoted[0];
        let quote = &hits[first.hit].chunk.text[first.range.clone()];
        assert!(
            quote.contains(wanted) && quote.contains("Figure") == question.contains("figure"),
            "{question}: {quote}"
        );
    }
}

#[test]
fn a_quote_does_not_end_within_a_formula() {
    let text = "# Attention\n\nWe divide each by √dk. We compute the matrix of outputs as softmax.\n\nAttention(Q, K, V ) = softmax( QK\n\nT\n\n√d k";
    let library = library("a.md", text.as_bytes());
    let text = answer(&library, "Why do they divide by √d_k?");
    assert!(
        text.contains("divide each by √dk") && !text.contains("QK"),
        "{text}"
    );
}

#[test]
fn questions_about_the_paper_are_answered_from_its_beginning() {
    let text = "# On Birds\n\nAnn Lee ann@birds.org Ben Poe ben@birds.org\n\n# Abstract\n\nWe show that a robin sings at dawn, and measure how long it sings in each of the seasons. It sings longest in May.\n\n# Results\n\nThe training took 3.5 days.";
    let library = library("birds.md", text.as_bytes());
    for (question, wanted) in [
        (
            "Who wrote the paper?",
            "(0.75) Ann Lee ann@birds.org Ben Poe ben@birds.org",
        ),
        (
            "Summarise the paper",
            "(0.75) We show that a robin sings at dawn, and measure how long it sings in each of the seasons. It sings longest in May.",
        ),
    ] {
        let hits = library.search("birds", 8).unwrap();
        let found = extract(library.all(), question, None, &hits, &Nearness::default());
        assert_eq!(found.verdict, Verdict::Answer, "{question}");
        let text = answer_from(&hits, &found);
        assert_eq!(text, wanted, "{question}");
    }
    assert!(answer(&library, "How long did training take?").contains("3.5 days"));
}

#[test]
fn no_sentence_is_quoted_twice() {
    let text = "# A\n\nThe red fox jumps high.\n\n# B\n\nThe red fox jumps high.\n\n# C\n\nThe red fox jumps very high.";
    let library = library("foxes.md", text.as_bytes());
    let text = answer(&library, "How high does the red fox jump?");
    assert_eq!(text.matches("jumps high.").count(), 1, "{text}");
}

#[test]
fn a_listing_that_repeats_the_question_does_not_answer_it() {
    let text = "# Start\n\nAsk the server about your documents.\n\n```\n$ ask \"What is the robin rule?\"\n{\"query\":\"What is the robin rule?\"}\n```\n\n# Other\n\nA wren sings.";
    let library = library("a.md", text.as_bytes());
    let hits = library.search("What is the robin rule?", 8).unwrap();
    let found = extract(
        library.all(),
        "What is the robin rule?",
        None,
        &hits,
        &Nearness::default(),
    );
    assert_ne!(found.verdict, Verdict::Answer, "{}", answer_from(&hits, &found));
}

#[test]
fn the_text_below_the_name_that_is_asked_about_is_its_definition() {
    let text = "# Settings\n\n## site_name\n\nThis is a required string that is used as the title.\n\nFor example:\n\n```\nsite_name: Robin\n```\n\n## Forged requests (CSRF)\n\nAnother page sends them. Against CSRF a token helps.";
    let library = library("a.md", text.as_bytes());
    for (question, wanted) in [
        ("what is site_name", "This is a required string"),
        ("explain csrf", "Another page sends them."),
    ] {
        let text = answer(&library, question);
        assert!(text.contains(wanted), "{question}: {text}");
    }
}

#[test]
fn the_name_of_an_option_is_quoted_with_its_description() {
    let text = "# Options\n\n--bare\n\nMake a store without files.\n\n--depth=N\n\nCreate a shallow copy with a history of so many commits.";
    let library = library("a.md", text.as_bytes());
    let text = answer(&library, "shallow copy with a short history of commits");
    assert!(text.contains("--depth=N\nCreate a shallow"), "{text}");
}

#[test]
fn a_quote_holds_neither_footnotes_nor_half_sentences() {
    let mut chunk = crate::Chunk::new(
        "d",
        "paper.pdf",
        0,
        "output values. These are joined.\nRobin attention reads all words of a sentence at once.\n∗Equal contribution. The order of names is random.",
    );
    chunk.page = Some(1);
    let library = library("paper.md", chunk.text.as_bytes());
    let found = extract(
        library.all(),
        "what is robin attention",
        None,
        &[Hit::new(chunk.clone(), 1.0)],
        &Nearness::new(),
    );
    let quotes: Vec<&str> = found
        .quoted
        .iter()
        .map(|one| &chunk.text[one.range.clone()])
        .collect();
    assert_eq!(quotes, ["Robin attention reads all words of a sentence at once."]);
}

#[test]
fn more_has_to_be_covered_the_more_passages_there_are() {
    for (passages, more) in [
        (0, 0.0),
        (1_000, 0.0),
        (10_000, 0.05),
        (1_000_000, 0.15),
        (usize::MAX, 0.15),
    ] {
        assert!((for_size(passages) - more).abs() < 1e-6, "{passages}");
    }
}

#[test]
fn an_option_is_quoted_with_its_name_up_to_what_is_asked_and_no_further() {
    let filler = "It applies to each feather of the bird that is counted here. ".repeat(7);
    let page = format!(
        "<dl><dt>beak_size (integer)<dd>Sets the size of the beak. The default is 5, \
         unless max_feathers is set.<dt>max_feathers (integer)<dd>Sets how many feathers a bird may have. {filler}\
         The default is 100.<dt>max_owls (integer)<dd>Sets how many owls there may be. The default is 3. It must be less \
         than max_feathers.</dl>"
    );
    let library = library("options.html", page.as_bytes());
    for question in ["default max_feathers", "what is the default of max_feathers?"] {
        let answer = answer(&library, question);
        let entry = format!("Sets how many feathers a bird may have. {filler}The default is 100.");
        assert_eq!(
            answer,
            format!("(1.00) max_feathers (integer)\n{entry}"),
            "{question}"
        );
    }
}

#[test]
fn a_row_is_quoted_without_the_rows_around_it() {
    let rows: String = (0..60)
        .map(|bird| {
            format!(
                "<tr><td><p>bird{bird}<td><p>seed of some kind<td><p>{} grams",
                bird * 3
            )
        })
        .collect();
    let page = format!("<h1>Birds</h1><table><tr><th>Bird<th>Food<th>Weight{rows}</table>");
    let library = library("birds.html", page.as_bytes());
    let row = answer(&library, "weight of bird41");
    assert_eq!(
        row,
        "(1.00) Bird | Food | Weight\nbird41 | seed of some kind | 123 grams"
    );
    // Rows that answer alike stay together.
    let list = answer(&library, "list the food of each bird");
    assert!(list.lines().count() > 4, "{list}");
}

#[test]
fn an_entry_of_several_passages_is_quoted_from_its_beginning() {
    let filler = "With --jobs each feather is counted by a worker of its own in turn. ".repeat(40);
    let page = format!(
        "<h1>count</h1><dl><dt>-v --verbose<dd>Says more.<dt>-j njobs --jobs=njobs<dd>Counts in parallel. {filler}</dl>"
    );
    let library = library("count.html", page.as_bytes());
    for question in ["what does --jobs do in count", "count -j"] {
        let found = library.search(question, 8).unwrap();
        let hits = by_relevance(library.all(), question, found, &Known::default());
        assert!(hits.len() > 1);
        let answer = answer_from(
            &hits,
            &extract(library.all(), question, None, &hits, &Nearness::default()),
        );
        assert!(
            answer.contains("--jobs=njobs\nCounts in parallel."),
            "{question}: {answer}"
        );
        assert_eq!(answer.matches("--jobs=njobs").count(), 1, "{question}: {answer}");
    }
}

#[test]
fn chinese_and_japanese_questions_are_compared_by_words() {
    let text = "# 安装\n\n用户的密码要设得足够长（多于 12 个字符）并尽可能复杂：服务器随时可能受到攻击。\n\n\
        # 计划任务\n\n提示：@reboot 只在系统启动后执行一次命令。\n- @yearly：每年一次；\n- @monthly：每月一次；\n\n\
        # 后台程序\n\n守护进程（daemon）是在后台运行的程序。系统启动时会启动守护进程。\n\n\
        # 優先度\n\nnice は優先度を 10 だけ増加します。ファイルを開くポートは 2049 番です。";
    let library = library("a.md", text.as_bytes());
    for (question, verdict, wanted) in [
        ("请问密码要设几位才够？", Verdict::Answer, "12 个字符"),
        ("系统启动后怎么执行一次命令", Verdict::Answer, "@reboot"),
        ("守护进程是什么意思", Verdict::Answer, "在后台运行的程序"),
        (
            "優先度はどれくらい増加するの？教えてください",
            Verdict::Answer,
            "10 だけ",
        ),
        ("北京明天会下雨吗", Verdict::Nothing, ""),
    ] {
        let hits = library.search(question, 8).unwrap();
        let found = extract(library.all(), question, None, &hits, &Nearness::default());
        assert_eq!(found.verdict, verdict, "{question}: {found:?}");
        assert!(
            answer_from(&hits, &found).contains(wanted),
            "{question}: {found:?}"
        );
    }
    // What is not mentioned is a word of the question, and not two characters across words.
    let hits = library.search("怎么给系统安装驱动", 8).unwrap();
    let found = extract(
        library.all(),
        "怎么给系统安装驱动",
        None,
        &hits,
        &Nearness::default(),
    );
    assert_eq!(found.unknown, ["驱动"]);
}

#[test]
fn the_words_of_a_follow_up_count_more_than_those_before_it() {
    let place = "Put the feeder on a pole from the garden shop.";
    let animals = "A baffle stops squirrels.";
    // One passage, of which a quote holds only a part.
    let between = "Owls see little by day and hunt for mice by night. ".repeat(12);
    let text = format!("{place}\n\n{between}\n\n{animals}");
    let library = library("birds.md", text.as_bytes());
    let (own, whole) = (
        "and which baffle stops squirrels?",
        "and which baffle stops squirrels feeder pole garden",
    );
    let hits = library.search(whole, 8).unwrap();
    let first = |own| {
        let found = extract(library.all(), whole, own, &hits, &Nearness::default());
        hits[found.quoted[0].hit].chunk.text[found.quoted[0].range.clone()].to_owned()
    };
    assert!(first(None).starts_with("Put the feeder"), "{}", first(None));
    assert!(first(Some(own)).starts_with("A baffle"), "{}", first(Some(own)));
}

#[test]
fn a_short_listing_is_quoted_from_its_first_line() {
    let text =
        "# Birds\n\nThis is for dawn:\n\n```python\nfor bird in garden:\n    tally(robin)\n```\n\nIt runs.\n";
    let library = library("birds.md", text.as_bytes());
    let answer = answer(&library, "how do I tally a robin");
    let listing = "This is for dawn:\nfor bird in garden:\n    tally(robin)\nIt runs.";
    assert_eq!(answer, format!("(1.00) {listing}"));
}

#[test]
fn a_numbered_part_is_quoted_from_its_beginning() {
    let law = "# Bird Law (BIL)\n\n## § 1 Scope\n\nSee § 17 for nests.\n\n## § 17 Nests\n\n(1) Nests are kept.\n\n(2) Eggs stay.\n";
    let library = library("law.md", law.as_bytes());
    let quoted = |question: &str| -> Vec<String> {
        let all = library.all().visible();
        let hits = library.search(question, 8).unwrap();
        let hits = match NumberedPart::of(library.all(), question, &all) {
            Some(part) => part.lead(library.all(), &all, hits).unwrap(),
            None => hits,
        };
        let found = extract(library.all(), question, None, &hits, &Nearness::default());
        let text = |one: &Quoted| hits[one.hit].chunk.text[one.range.clone()].to_owned();
        found.quoted.iter().map(text).collect()
    };
    let part = "(1) Nests are kept.\n(2) Eggs stay.";
    for question in ["§ 17 BIL", "bil 17", "what does section 17 of the bird law say?"] {
        assert_eq!(quoted(question), [part], "{question}");
    }
    // What is asked about the part is quoted from it.
    assert_eq!(quoted("what stays by § 17"), ["(2) Eggs stay."]);
}

#[test]
fn steps_are_quoted_to_their_end_with_what_leads_to_them() {
    let filler = "Owls see little by day and hunt for mice by night. ".repeat(8);
    let steps = [
        "Take the feeder down and empty all seeds that are left in it onto the compost.",
        "Wash it with hot water and a brush, without soap, until nothing sticks to it any more.",
        "Let it dry in the sun for a day, because wet wood rots and wet seeds germinate.",
        "Put new seeds in and hang it where no cat reaches it, at least two metres above the ground.",
        "Wait.",
    ];
    let marked = |mark: fn(usize) -> String| -> String {
        steps
            .iter()
            .enumerate()
            .map(|(at, step)| format!("{}{step}\n", mark(at + 1)))
            .collect()
    };
    let leading = "Birds get ill otherwise. To clean the feeder:";
    let quoted = |list: String| {
        let text = format!("# Birds\n\n{filler}\n\n{leading}\n\n{list}\n{filler}\n");
        let library = library("birds.md", text.as_bytes());
        answer(&library, "how do I clean the feeder")
    };
    let whole = format!("(1.00) To clean the feeder:\n{}", steps.join("\n"));
    let begins = |answer: &str, wanted: &str| assert!(answer.starts_with(wanted), "{answer}");
    begins(&quoted(marked(|number| format!("{number}. "))), &whole);
    begins(&quoted(marked(|_| "- ".to_owned())), &whole);
    // With the heading alone, the first step leads to the others.
    let list = marked(|number| format!("{number}. "));
    let headed = format!("# Birds\n\n## Cleaning a feeder\n\n{list}\n## Owls\n\n{filler}\n");
    let library = library("birds.md", headed.as_bytes());
    begins(
        &answer(&library, "how do I clean a feeder"),
        &format!("(1.00) {}", steps.join("\n")),
    );
    // The passage has few sentences, and all words of the question are in the first two steps.
    let short =
        "# Birds\n\n## Cleaning\n\n1. Empty the feeder.\n2. Clean it with water.\n3. Dry it in the sun.\n";
    let library = self::library("birds.md", short.as_bytes());
    begins(
        &answer(&library, "how do I clean the feeder"),
        "(1.00) Empty the feeder.\nClean it with water.\nDry it in the sun.",
    );
}

#[test]
fn rules_are_not_steps() {
    let rule =
        |what: &str| format!("{what} only with the consent of the landlord, which is given in writing.\n");
    let rules = [
        "Balconies are painted",
        "Pets are allowed",
        "Cellars are let",
        "Music is played",
        "Doors are locked",
    ];
    let rules = rules
        .into_iter()
        .chain(["Lamps are lit", "Cars are washed", "Bicycles are parked"]);
    let rules: String = rules
        .enumerate()
        .map(|(at, what)| format!("{}. {}", at + 1, rule(what)))
        .collect();
    let library = library("house.md", format!("# House\n\n{rules}").as_bytes());
    for (question, first) in [
        (
            "are pets allowed with consent of the landlord",
            "Pets are allowed",
        ),
        (
            "are balconies painted with consent of the landlord",
            "Balconies are painted",
        ),
    ] {
        let answer = answer(&library, question);
        assert!(answer.starts_with(&format!("(1.00) {}", rule(first))), "{answer}");
        assert!(!answer.contains("Bicycles"), "{answer}");
    }
}

#[test]
fn the_names_of_columns_are_not_quoted_without_a_row() {
    let attracts = "A feeder attracts robins and wrens, which come to it at dawn, when the owls have gone to sleep in the wood, and \
        leave it when the cats of the house are let out after breakfast, as they are every day.";
    let names = "Name of the kind of animal | What it eats in winter, when the ground is frozen and covered with snow | Time";
    let rows = "| owl | mice and voles | night |\n| wren | spiders and flies | day |\n".repeat(9);
    let text = format!("# Birds\n\n{attracts}\n\n| {names} |\n|---|---|---|\n{rows}");
    let library = library("birds.md", text.as_bytes());
    let answer = answer(&library, "what attracts robins to a feeder");
    assert_eq!(answer, format!("(1.00) {attracts}"));
}

#[test]
fn the_name_of_the_next_listing_is_not_quoted() {
    let text = "# Owls\n\nTo install owls, run this:\n\n```\nowl install\n```\n\nWindows\n\n```\nowl.exe install --with-all-feathers --and-a-long-list-of-other-options-that-fill-the-quote-until-it-ends\n```\n";
    let long = text.replace("owl.exe", &"owl.exe --quiet ".repeat(30));
    let library = library("owls.md", long.as_bytes());
    let answer = answer(&library, "how do I install owls");
    let first = "(1.00) To install owls, run this:\nowl install";
    assert_eq!(answer.split("\n(").next(), Some(first));
}
