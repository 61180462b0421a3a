//! Quotes of entries: names with their descriptions.

use super::tests::{answer, answer_from, library};
use super::{Nearness, extract};
use crate::search::relevance::{Known, by_relevance};

#[test]
fn names_that_a_sentence_leads_to_are_quoted_with_their_descriptions() {
    let page = "<h1>Numbers</h1><p>Birds are counted.</p><dl><dt>count_birds (birds, rule)<dd><p>Counts the birds with \
        a rule. The rule is one of these:<dl><dt>\"whole\"<dd>Counts whole birds only.<dt>\"up\"<dt>\"ceil\"<dd>Counts the \
        next whole number.<dt>\"down\"<dd>Leaves the rest out.</dl><p>Without a rule, it is \"whole\".<dt>count_owls (owls)\
        <dd>Counts owls.</dl>";
    let numbers = library("numbers.html", page.as_bytes());
    assert_eq!(
        answer(&numbers, "which rule can count_birds have"),
        "(1.00) count_birds (birds, rule)\nCounts the birds with a rule. The rule is one of these:\n\
         \"whole\"\nCounts whole birds only.\n\"up\"\n\"ceil\"\nCounts the next whole number.\n\"down\"\nLeaves the rest out.\n\
         Without a rule, it is \"whole\"."
    );
    let page = "<h1>Files</h1><p>These files are scripts which run around a nest. The individual files are:<dl>\
        <dt>prenest<dd>This script runs before the nest it belongs to is built.<dt>postnest<dd>This script runs after \
        that, and often asks the robin for seeds.<dt>prerm<dd>This script typically stops any song.</dl>";
    let scripts = library("scripts.html", page.as_bytes());
    assert_eq!(
        answer(&scripts, "what's a prenest script"),
        "(1.00) These files are scripts which run around a nest. The individual files are:\nprenest\n\
         This script runs before the nest it belongs to is built.\n\
         (0.50) postnest\nThis script runs after that, and often asks the robin for seeds.\n\
         (0.50) prerm\nThis script typically stops any song.",
        "the entry that is asked about begins with what leads to it, and ends before the others"
    );
}

#[test]
fn the_description_of_a_name_is_quoted_to_its_end() {
    let page = "<h1>Robins</h1><h2>fromNest :: Nest -&gt; Robin</h2><p>The fromNest function takes a nest. If the nest is empty, \
        it gives the default robin.</p><h2>fromEgg</h2><p>Not that.";
    let robins = library("robins.html", page.as_bytes());
    assert_eq!(
        answer(&robins, "what does fromNest do"),
        "(1.00) The fromNest function takes a nest. If the nest is empty, it gives the default robin."
    );
}

#[test]
fn what_else_may_be_read_is_not_quoted() {
    let page = "<h1>Robin</h1><p>A robin is safe for several nests, and it needs no lock around its songs when they are sung at \
        once by many of its friends.</p><p>See Also:<ul><li>Owl<li>Wren</ul><h1>Owl</h1><p>Safe owls hunt.";
    let robins = library("robin.html", page.as_bytes());
    assert_eq!(
        answer(&robins, "is a robin safe for several nests in winter"),
        "(0.61) A robin is safe for several nests, and it needs no lock around its songs when they are sung at once by many of \
         its friends."
    );
}

#[test]
fn a_member_is_described_below_its_name_and_not_where_it_is_used() {
    let pages = "<h1>Class Deque</h1><h2>addFirst</h2><p>Inserts an element at the front of a deque.\
        <h1>Class Queue</h1><h2>addFirst</h2><p>Inserts an element at the front of a queue.\
        <h1>Uses</h1><p>It is named by Deque.addFirst(E e) and Deque.addFirst(F f) elsewhere.";
    let api = library("api.html", pages.as_bytes());
    let question = "what does Deque.addFirst do";
    let found = api.search(question, 8).unwrap();
    let hits = by_relevance(api.all(), question, found, &Known::default());
    let extract = extract(api.all(), question, None, &hits, &Nearness::default());
    assert_eq!(
        answer_from(&hits, &extract),
        "(1.00) Inserts an element at the front of a deque."
    );
}
