//! The reference server. All code is in the library, so that tests can run it in their own process.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ragwire_server::cli::main()
}
