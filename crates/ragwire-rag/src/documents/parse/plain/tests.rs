use super::*;
use crate::Block;
use crate::test_data::check_returns_soon;

/// The blocks with their headings, and how they are in lists: `1.`, `-`, or `+` where an item continues, indented by the
/// lists around it. Listings are between backticks, terms before an equals sign.
fn read(text: &str) -> Vec<String> {
    let parsed = parse(text, &ParseLimits::default()).unwrap();
    let show = |block: Block| {
        let heading = block.heading.map_or_else(String::new, |heading| heading + ": ");
        let place = block.item.map_or_else(String::new, |item| {
            let mark = match item.number {
                Some(number) => format!("{number}. "),
                None if item.continued => "+ ".to_owned(),
                None => "- ".to_owned(),
            };
            "  ".repeat(item.depth as usize - 1) + &mark
        });
        let text = match block.kind {
            BlockKind::Prose => block.text,
            BlockKind::Listing => format!("`{}`", block.text),
        };
        match block.term.filter(|term| *term != text) {
            Some(term) => format!("{heading}{place}{term} = {text}"),
            None => format!("{heading}{place}{text}"),
        }
    };
    parsed.blocks.into_iter().map(show).collect()
}

#[test]
fn layout_is_structure() {
    let text = "\
Birds
=====

A robin sings
at dawn.

Feeding
-------
Run it:

    feed --all
    feed --owl

  * seeds
  * worms
    and more

Name      Food
robin     seeds
owl       mice

STORING
   Keep it dry.

1.  Introduction

   This is about (1) a thing.

1.1.  Terms

   A term is:

     A sentence that is indented, and
     has an end.

   1. One
   2. Two

Really?

2. Not a heading.

====================
Owls

Two ways:
\towl --hoot
\towl --fly
or none.

robin
    sings
    at dawn
";
    assert_eq!(
        read(text),
        [
            "Birds: A robin sings at dawn.",
            "Birds > Feeding: Run it:",
            "Birds > Feeding: `feed --all\nfeed --owl`",
            "Birds > Feeding: - seeds",
            "Birds > Feeding: - worms and more",
            "Birds > Feeding: `Name      Food\nrobin     seeds\nowl       mice`",
            "Birds > STORING: Keep it dry.",
            "Birds > 1. Introduction: This is about (1) a thing.",
            "Birds > 1. Introduction > 1.1. Terms: A term is:",
            "Birds > 1. Introduction > 1.1. Terms: A sentence that is indented, and has an end.",
            "Birds > 1. Introduction > 1.1. Terms: 1. One",
            "Birds > 1. Introduction > 1.1. Terms: 2. Two",
            "Birds > 1. Introduction > 1.1. Terms: Really?",
            "Birds > 1. Introduction > 1.1. Terms: 2. Not a heading.",
            "Owls: Two ways:",
            "Owls: `owl --hoot\nowl --fly`",
            "Owls: or none.",
            "Owls: robin",
            "Owls: robin = sings at dawn",
        ]
    );
}

#[test]
fn lists_are_known_by_where_lines_begin() {
    let text = "\
Feed them:

3. Fill the feeder
   and close it.

   Wait a day.

     a) with seeds
     b) with nuts
        that are small

   Look:

       feed --look

4. Clean it. A long line that
goes on at the margin.
10) No list begins here.

They come.
- robins
  + red ones
  + others
- owls
And that is
all.

  o eats
  o sleeps

It is a number - or
2. a word.

It may
  1. sing
  2. fly.

1. Open it
2. Fill it
2. Close it
3. Wait

- 2 eggs
- a long item that needs more than one line, and this
is its end
- salt

Steps
1.) Open the door, and wait until all of the robins
have come.
2.) Close it.

12. Dezember 2024 war ein Tag.

步骤：
1. 打开门
2. 喂鸟

□ Yes
☑ No

a Open the door
o Close the door
- or not

 9. Nine
10. Ten
";
    assert_eq!(
        read(text),
        [
            "Feed them:",
            "3. Fill the feeder and close it.",
            "+ Wait a day.",
            "  - a) with seeds",
            "  - b) with nuts that are small",
            "+ Look:",
            "`feed --look`",
            "4. Clean it. A long line that goes on at the margin.",
            "10) No list begins here.",
            "They come.",
            "- robins",
            "  - red ones",
            "  - others",
            "- owls",
            "And that is all.",
            "- eats",
            "- sleeps",
            "It is a number - or 2. a word.",
            "It may",
            "1. sing",
            "2. fly.",
            "1. Open it",
            "2. Fill it",
            "2. Close it",
            "3. Wait",
            "- 2 eggs",
            "- a long item that needs more than one line, and this is its end",
            "- salt",
            "Steps",
            "1. Open the door, and wait until all of the robins have come.",
            "2. Close it.",
            "12. Dezember 2024 war ein Tag.",
            "步骤：",
            "1. 打开门",
            "2. 喂鸟",
            "- □ Yes",
            "- ☑ No",
            "a Open the door o Close the door",
            "- or not",
            "9. Nine",
            "10. Ten",
        ]
    );
    // A browser for terminals writes the bullets of inner lists so.
    assert_eq!(read("• birds\n\n    □ owls\n"), ["- birds", "  - owls"]);
}

#[test]
fn headings_with_numbers_need_no_indented_text() {
    let text = "\
1. Birds

All of them.

  1.1. Owls

  1. They hoot.
  2. They fly.

1.2: Who sings?

A robin.

2. What eats?

3. Fish

1. A carp

2. A pike

10.0.0.1: a host

192.168.0.1: another

5.1 The buyer may cancel at any time

5.2 If the buyer cancels, nothing is paid.

1. HTML
   A markup language.
2. JSON
   A data format.

Chapter 4: Ducks

Text.

Chapter 5 is about ducks too, as the one above is, and so
it is not a heading.
";
    assert_eq!(
        read(text),
        [
            "1. Birds: All of them.",
            "1. Birds > 1.1. Owls: 1. They hoot.",
            "1. Birds > 1.1. Owls: 2. They fly.",
            "1. Birds > 1.2: Who sings?: A robin.",
            "1. Birds > 1.2: Who sings?: 2. What eats?",
            "3. Fish: 1. A carp",
            "3. Fish: 2. A pike",
            "3. Fish: 10.0.0.1: a host",
            "3. Fish: 192.168.0.1: another",
            "3. Fish: 5.1 The buyer may cancel at any time",
            "3. Fish: 5.2 If the buyer cancels, nothing is paid.",
            "3. Fish: 1. HTML A markup language.",
            "3. Fish: 2. JSON A data format.",
            "Chapter 4: Ducks: Text.",
            "Chapter 4: Ducks: Chapter 5 is about ducks too, as the one above is, and so it is not a heading.",
        ]
    );
}

#[test]
fn headings_without_numbers_are_within_those_with() {
    let text = "\
Birds
*****

1. Owls
*******

1.1. Food
=========

MICE

They eat them:
Mouse    grey
Vole     brown

Notes
-----

None yet.

2. Robins
*********

Appendix
********

The end.
";
    assert_eq!(
        read(text),
        [
            "Birds > 1. Owls > 1.1. Food > MICE: They eat them:",
            "Birds > 1. Owls > 1.1. Food > MICE: `Mouse    grey\nVole     brown`",
            "Birds > 1. Owls > 1.1. Food > Notes: None yet.",
            "Birds > 1. Owls > 1.1. Food > Notes: 2. Robins",
            "Birds > Appendix: The end.",
        ]
    );
}

#[test]
fn lines_that_are_not_indented_as_text_are_headings() {
    let long = "and this line is as long as those of a paragraph are";
    let text = format!(
        "                            All about birds\n\n   A robin sings, {long}.\n\nFood\n\n   Seeds, {long}.\n\nOwls\n\nMice\n\n   \
         Few, {long}.\n\nNot a heading.\n\nfeed --all\n\nA command\n\nFood      mice\n\n   Last, {long}.\n"
    );
    let paragraph = |first: &str| format!("{first}, {long}.");
    let expected = [
        format!("All about birds: {}", paragraph("A robin sings")),
        format!("All about birds > Food: {}", paragraph("Seeds")),
        "All about birds > Food: Owls".to_owned(),
        format!("All about birds > Mice: {}", paragraph("Few")),
        "All about birds > Mice: Not a heading.".to_owned(),
        "All about birds > Mice: feed --all".to_owned(),
        "All about birds > Mice: A command".to_owned(),
        "All about birds > Mice: Food mice".to_owned(),
        format!("All about birds > Mice: {}", paragraph("Last")),
    ];
    assert_eq!(read(&text), expected);
    // The text itself is not indented.
    let text = format!("Food\n\nSeeds, {long}.\n\n   Owls, {long}.\n");
    assert_eq!(
        read(&text),
        ["Food".to_owned(), paragraph("Seeds"), paragraph("Owls")]
    );
}

#[test]
fn questions_and_entries_are_headings() {
    let text = "\
Q: Who sings?
Q: Who sings at night, and
   why?

Q: Who sings?

A: A robin.

Q3: Which eat?

A3. Owls.

Q: Who sings at night, and
   why?
A: A nightin-
    gale. Nightingales are birds.
Q: Who hoots?
A: An owl.

Q1. Which one eats?
A. Robin
B. Owl

:robin: n.

A bird.

:nightingale: /pronounced/

Another bird: it sings.

:owl: n.

It hoots.
";
    assert_eq!(
        read(text),
        [
            "Who sings?: A robin.",
            "Which eat?: Owls.",
            "Who sings at night, and why?: A nightingale. Nightingales are birds.",
            "Who hoots?: An owl.",
            "Who hoots?: Q1. Which one eats? A. Robin B. Owl",
            "robin: n.: A bird.",
            "nightingale: /pronounced/: Another bird: it sings.",
            "owl: n.: It hoots.",
        ]
    );
    assert_eq!(read(":Author: Ann\n\nText.\n"), [":Author: Ann", "Text."]);
    // A heading that is too long would be cut.
    let long = "very ".repeat(40);
    assert_eq!(read(&format!("Q: A {long}long one?\nA: Yes.\n")).len(), 1);
}

#[test]
fn names_beside_descriptions_of_several_lines_are_entries() {
    let options = "\
Options:

  -a, --all      show robins, and all the
                 other birds
  -b             be quick

gU{motion}\t\tMake it uppercase, and
\t\t\tnot small.

x   one
y   two

red    owl    mice
              voles

o   a robin and
    an owl
o   a carp

int i;   /* one
            two */
";
    assert_eq!(
        read(options),
        [
            "Options:",
            "-a, --all",
            "-a, --all = show robins, and all the other birds",
            "-b",
            "-b = be quick",
            "gU{motion}",
            "gU{motion} = Make it uppercase, and not small.",
            "`x   one\ny   two`",
            "red owl mice",
            "red owl mice = voles",
            "- a robin and an owl",
            "- a carp",
            "int i; /* one",
            "int i; /* one = two */",
        ]
    );
}

#[test]
fn tables_of_contents_are_left_out() {
    let titled = "Table of Contents\n=================\n\n  1. Robins and all the other\n     birds\n  * Owls\n\nText.\n\n\
                  Chapter 1. Robins and all the other birds\n\nSeeds.\n\nOwls\n----\n\nMice.\n";
    assert_eq!(
        read(titled),
        [
            "Text.",
            "Chapter 1. Robins and all the other birds: Seeds.",
            "Owls: Mice.",
        ]
    );
    let entries: String = (1..8).map(|n| format!("* {n}. Bird {n}\n\n")).collect();
    let parts: String = (1..8)
        .map(|n| format!("{n}. Bird {n}\n=========\n\nText {n}.\n\n"))
        .collect();
    let expected: Vec<String> = (1..8).map(|n| format!("{n}. Bird {n}: Text {n}.")).collect();
    assert_eq!(read(&format!("{entries}{parts}")), expected);
    // Without a title, a few names may be a list, and so may lines that are not headings below.
    let few: String = (1..4).map(|n| format!("* {n}. Bird {n}\n\n")).collect();
    assert_eq!(read(&format!("{few}{parts}")).len(), 3 + 7);
    let words = "robin\n\nowl\n\ncarp\n\npike\n\nwren\n\ntit\n\nduck\n\n";
    assert_eq!(read(&words.repeat(2)).len(), 14);
    // Lists of the same things in two recipes, and the lines below the points of an agenda.
    let food = "2 Eier\n1 Zwiebel\n1 TL Salz\n2 EL Öl\n1 Zitrone\n3 Tomaten\n\nMischen.\n\n";
    assert_eq!(read(&food.repeat(2)).len(), 4);
    let agenda: String = (1..8)
        .map(|n| format!("{n}. Point {n}\n   All agree on {n}.\n"))
        .collect();
    assert_eq!(read(&format!("{agenda}\n{agenda}")).len(), 14);
    let text = "1. Robins\n\nThey sing.\n\n2. Owls\n   of the night\n\nThey hoot.\n";
    let wrapped = format!("Contents\n\n1. Robins\n2. Owls\n   of the night\n\n{text}");
    let whole = ["1. Robins", "They sing.", "2. Owls of the night", "They hoot."];
    assert_eq!(read(&wrapped), whole);
    let described = format!("Contents\n\n1. Robins\n   where they nest\n2. Owls\n\n{text}");
    let with_contents = [&["Contents", "1. Robins where they nest", "2. Owls"], &whole[..]].concat();
    assert_eq!(read(&described), with_contents);
    let leaders = "One .... 1\nTwo .... 2\nThree .... 2\n\nText.\n";
    assert_eq!(read(leaders), ["Text."]);
}

#[test]
fn nothing_is_lost() {
    let cases: [(&str, &[&str]); 9] = [
        (
            "Coffee ........ 2.50\nTea ........... 2.50\nCake .......... 3.50\n",
            &["Coffee ........ 2.50 Tea ........... 2.50 Cake .......... 3.50"],
        ),
        (
            "Menu\nTea .... 2\nCake .... 3\n",
            &["Menu Tea .... 2 Cake .... 3"],
        ),
        (
            "1. Open the door\n\n2. Feed the birds\n\n3. Close the door\n",
            &["1. Open the door", "2. Feed the birds", "3. Close the door"],
        ),
        ("KEEP THE DOOR CLOSED\n", &["KEEP THE DOOR CLOSED"]),
        (
            "Regards\n\n--------------------\nJohn Smith\n",
            &["Regards", "John Smith"],
        ),
        ("FIRST LINE\nSECOND LINE\n", &["FIRST LINE SECOND LINE"]),
        (
            "Seeds ........ 2.50\nWorms ........ 3.00\n",
            &["Seeds ........ 2.50 Worms ........ 3.00"],
        ),
        ("Wait for it.... 5\n", &["Wait for it.... 5"]),
        ("--- Birds ---\n\nText.\n", &["--- Birds ---", "Text."]),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn paragraphs_end_at_empty_lines_however_lines_end() {
    assert_eq!(
        read("One\r\ntwo.\r\n \r\nThree.\n\n\n\nFour."),
        ["One two.", "Three.", "Four."]
    );
}

#[test]
fn sizes_at_the_edge_are_read() {
    assert_eq!(read(&"word ".repeat(2_000_000)).len(), 1);
    assert_eq!(read(&"a\n".repeat(100_000))[0].len(), 199_999);
    assert_eq!(read(&"a\n\n".repeat(100_000)).len(), 100_000);
}

#[test]
fn hostile_text_returns_soon() {
    let pieces = [
        "\x0c",
        "\x0ca\n",
        "a\n=\n",
        "- ",
        "- a\n",
        " - a\n",
        "1. A\n\n",
        "1.1. A\n\n",
        "A\n",
        "    ",
        "a:\n\n   b\n\n",
        "[Page 1]\n",
        "a:\n  b\n",
        "a\n  b\n\n",
        "--------------------\na\n\n",
        "Contents\n\n",
        "Contents\na\n",
        "Q: a\n",
        "Q: a\n\n",
        "A: a\n\n",
        ":a: b\n\n",
        "\n\n\n",
        "a   1\n\n\n",
        "a-\n",
        "a   b\n",
        "a   b\n     c\n",
    ];
    check_returns_soon(parse, &pieces);
}
