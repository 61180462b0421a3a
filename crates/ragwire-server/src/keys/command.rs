//! `keys new`: makes a key and prints its line for the file.

use std::process::ExitCode;

use clap::Args;
use data_encoding::HEXLOWER;

use super::file::{Line, parse_owner, parse_rate, parse_scopes};
use super::{Key, Scope, hash};

use crate::output::{print_line, report_line};

/// The beginning of each key, by which scanners for leaked secrets recognise it.
const PREFIX: &str = "rw_";
/// The random part of a key.
const KEY_BYTES: usize = 32;

/// The key to make.
#[derive(Debug, Args)]
pub struct NewKey {
    /// The user whose conversations and documents the key reads and changes
    #[arg(long, value_name = "NAME", value_parser = parse_owner)]
    owner: String,
    /// What the key may do, separated by commas: ask, read, documents, admin
    #[arg(long = "scope", value_name = "SCOPES", default_value = "ask,read", value_parser = scopes)]
    scopes: Scopes,
    /// Maximum number of requests per minute; by default there is none
    #[arg(long, value_name = "NUMBER", value_parser = parse_rate)]
    rate: Option<u32>,
}

/// A list of scopes, as one value of a flag.
#[derive(Clone, Debug)]
struct Scopes(Vec<Scope>);

fn scopes(text: &str) -> Result<Scopes, String> {
    parse_scopes(text).map(Scopes)
}

/// Makes a key. The line for the file goes to stdout, the key to stderr: it is shown only once.
pub fn new_key(options: NewKey) -> ExitCode {
    let mut random = [0; KEY_BYTES];
    if let Err(error) = getrandom::fill(&mut random) {
        report_line!("error: no random numbers: {error}");
        return ExitCode::FAILURE;
    }
    let text = format!("{PREFIX}{}", HEXLOWER.encode(&random));
    let key = Key {
        owner: options.owner,
        scopes: options.scopes.0,
        rate: options.rate,
    };
    print_line!("{}", Line(hash(text.as_bytes()), &key));
    report_line!("The key, which is shown only now and stored nowhere: {text}");
    ExitCode::SUCCESS
}
