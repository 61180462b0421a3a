//! What a library for several hosts sends to its server, counted on the double.

use std::time::Duration;

use crate::shared::{add, found, options};
use ragwire_rag::{DocumentFilter, DocumentOwner, Library, LibraryLimits, parse};
use ragwire_test_support::qdrant::Double;

/// A request names the documents that its user finds, or the others if they are fewer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_search_sends_does_not_grow_with_the_documents_of_everyone() {
    let double = Double::searching().await;
    let library = Library::shared(
        options(&double.url).poll(Duration::from_secs(3_600)),
        LibraryLimits::default(),
    )
    .unwrap();
    let diary = parse("diary.md", b"My robin sang at noon.", &Default::default()).unwrap();
    let ada = DocumentOwner::new("ada");
    let go_on = |_| std::ops::ControlFlow::Continue(());
    library.add_for(&ada, "diary.md", &diary, go_on).unwrap();
    let mut sent = Vec::new();
    for documents in [10, 20] {
        for n in documents - 10..documents {
            add(&library, &format!("{n}.md"), &format!("Robin number{n} sings."));
        }
        double.take_requests();
        let eve = DocumentFilter::default().user("eve");
        assert_eq!(found(&library, "robin", &eve).len(), 10);
        let requests = double.take_requests();
        sent.push(
            requests
                .iter()
                .map(|request| request.message.len())
                .sum::<usize>(),
        );
    }
    // The numbers of hits and of private documents may have a byte more.
    assert!(sent[1] <= sent[0] + 16, "{sent:?}");
}

/// Prints what one host, and each further one, sends to the server: `--ignored --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement for docs/several-hosts.md"]
async fn requests_and_bytes_by_documents_and_hosts() {
    for documents in [100, 200, 400] {
        let double = Double::searching().await;
        let quiet = || {
            let options = options(&double.url).poll(Duration::from_secs(3_600));
            Library::shared(options, LibraryLimits::default()).unwrap()
        };
        let one = quiet();
        let sum = |what: &str| {
            let requests = double.take_requests();
            let bytes: usize = requests.iter().map(|request| request.message.len()).sum();
            let answered = double.take_answered();
            println!(
                "{documents} documents, {what}: {} requests, {bytes} bytes sent, {answered} received",
                requests.len()
            );
        };
        for n in 0..documents {
            let text: String = (0..20)
                .map(|part| {
                    format!(
                        "## Part {part}\n\nDocument number{n} says that the pump of unit{part} runs at {n} bar. {}\n\n",
                        "It is made of steel and of copper, and its valve is opened by hand once a day. ".repeat(6)
                    )
                })
                .collect();
            if n + 1 == documents {
                sum("all uploads but the last");
            }
            add(&one, &format!("{n}.md"), &text);
        }
        sum("the last upload");
        let passages: u32 = one.list().iter().map(|document| document.chunks).sum();
        println!(
            "{documents} documents, {passages} passages, points {:?}",
            double.points()
        );
        let other = quiet();
        sum("the start of another host");
        other.refresh().unwrap();
        sum("a look for changes of the last seconds");
        other.search("Which pump runs at 7 bar?", 10).unwrap();
        sum("a search");
        other.search("Which pump runs at 7 bar?", 10).unwrap();
        sum("the same search again");
        let diary = parse("diary.md", b"My pump runs.", &Default::default()).unwrap();
        let ada = DocumentOwner::new("ada");
        let go_on = |_| std::ops::ControlFlow::Continue(());
        one.add_for(&ada, "diary.md", &diary, go_on).unwrap();
        other.refresh().unwrap();
        double.take_requests();
        double.take_answered();
        let eve = DocumentFilter::default().user("eve");
        other.search_in("Which pump runs at 7 bar?", 10, &eve).unwrap();
        sum("a search while one document is private");
        other.search_in("Which pump runs at 7 bar?", 10, &eve).unwrap();
        sum("the same search again");
        other.remove(&other.list()[0].id).unwrap();
        sum("a removal");
    }
}
