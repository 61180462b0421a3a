//! Commands and replies survive encoding and decoding.

use super::*;

fn fields(fields: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
    fields.iter().map(own).collect()
}

#[test]
fn every_outcome_has_a_code() {
    for outcome in Outcome::ALL {
        assert_eq!(Outcome::parse(outcome.code()), Some(outcome));
        let reply = fields(&[("number", "7"), ("outcome", outcome.code())]);
        let Some(Message::Reply {
            number: 7,
            outcome: parsed,
        }) = Message::parse(&reply)
        else {
            panic!("{outcome:?}")
        };
        assert_eq!(parsed, outcome);
    }
}

#[test]
fn invalid_messages_are_ignored() {
    let turn = "0".repeat(31) + "1";
    let call = [
        ("turn", turn.as_str()),
        ("from", "p"),
        ("number", "1"),
        ("do", "stop"),
    ];
    assert!(matches!(
        Message::parse(&fields(&call)),
        Some(Message::Call {
            command: Command::Stop,
            ..
        })
    ));
    for missing in 0..call.len() {
        let mut call = call.to_vec();
        call.remove(missing);
        assert!(Message::parse(&fields(&call)).is_none(), "{missing}");
    }
    for (name, value) in [("turn", "x"), ("do", "sing"), ("do", "answer")] {
        let call = call.map(|(field, valid)| (field, if field == name { value } else { valid }));
        assert!(Message::parse(&fields(&call)).is_none(), "{name} {value}");
    }
    let answer = |json| {
        let mut answer = call[..3].to_vec();
        answer.extend([("do", "authorized"), ("request_id", "r"), ("answer", json)]);
        Message::parse(&fields(&answer))
    };
    assert!(matches!(
        answer("\"a\""),
        Some(Message::Call {
            command: Command::Answer {
                by: AnswerSource::Program,
                ..
            },
            ..
        })
    ));
    assert!(answer("{").is_none());
    for other in [
        &[("wake", "1")][..],
        &[],
        &[("outcome", "fine"), ("number", "1")],
        &[("outcome", "over"), ("number", "x")],
    ] {
        assert!(Message::parse(&fields(other)).is_none(), "{other:?}");
    }
}

/// A connection that breaks between the two commands must not leave an inbox without expiry.
#[test]
fn a_message_and_its_expiry_are_one_transaction() {
    let mut pipeline = redis::pipe();
    send(&mut pipeline, "p:", "process", &[("wake", "1")]);
    let sent = String::from_utf8(pipeline.get_packed_pipeline()).unwrap();
    let words: Vec<&str> = sent
        .split("\r\n")
        .filter(|word| word.chars().all(char::is_uppercase))
        .collect();
    let commands: Vec<&str> = words
        .into_iter()
        .filter(|word| !word.is_empty() && *word != "MAXLEN")
        .collect();
    assert_eq!(commands, ["MULTI", "XADD", "PEXPIRE", "EXEC"]);
}
