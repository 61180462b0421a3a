#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| ragwire_fuzz::socket(data));

/// Without cargo-fuzz there is nothing to run: `cargo test -p ragwire-fuzz` runs the corpus.
#[cfg(not(fuzzing))]
fn main() {}
