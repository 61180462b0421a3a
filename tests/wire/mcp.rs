//! The schemas of MCP's results, compared with the results.

use bytes::BytesMut;
use ragwire::event::{Source, Sources};
use ragwire::wire::Wire;
use ragwire::{Citation, End, Mcp, Metadata};
use serde_json::Value;

/// Checks a value against the parts of JSON Schema that the schemas use.
fn check(value: &Value, schema: &Value, path: &str) {
    let is = match schema["type"].as_str().unwrap() {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        kind => panic!("{path}: {kind}"),
    };
    assert!(is, "{path}: {value}");
    for element in value.as_array().into_iter().flatten() {
        check(element, &schema["items"], &format!("{path}[]"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(value.get(name.as_str().unwrap()).is_some(), "{path}.{name}");
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        check(member, &schema["properties"][name], &format!("{path}.{name}"));
    }
}

#[test]
fn an_answer_has_the_form_of_its_schema() {
    let mut citation = Citation::new("d", "c", "q", "bm25").heading("H").score(0.5);
    citation.page_number = Some(3);
    let metadata = Metadata::default().citations(vec![citation]).tools_used(["bm25"]);
    let result = Mcp::new(1.into()).result("Yes [1].", &End::completed(metadata));
    check(&result["structuredContent"], &Mcp::output_schema(), "answer");
}

#[test]
fn passages_have_the_form_of_their_schema() {
    let passage = Source::new("c", "d", "text", vec![3])
        .title("T")
        .level("L1")
        .score(0.5)
        .heading("H");
    let sources = Sources::new(vec![passage, Source::new("c", "d", "text", vec![])]);
    let (mut encoder, mut out) = (Mcp::new(1.into()).passages().encoder(), BytesMut::new());
    encoder.event(&sources.into(), None, &mut out).unwrap();
    encoder.end(&End::default(), &mut out).unwrap();
    let out = String::from_utf8(out.to_vec()).unwrap();
    let (_, data) = out.split_once("data: ").unwrap();
    let response: Value = serde_json::from_str(data).unwrap();
    let found = &response["result"]["structuredContent"];
    assert_eq!(found["passages"].as_array().map(Vec::len), Some(2));
    check(found, &Mcp::passages_schema(), "found");
}
