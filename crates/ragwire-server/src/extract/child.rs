//! The process that reads documents.
//!
//! To stdout it writes [`SEPARATOR`] once it runs. On stdin it gets one document after another: the
//! lengths of its name and of its content as 8 bytes each, and both. For each it writes
//! [`SEPARATOR`], the length of the outcome as 8 bytes, and the outcome as JSON. Numbers are
//! little-endian.
//!
//! It ends when stdin does, when no document comes for a while, and when a document left it with
//! much memory in use.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::process::{Command, ExitCode};

use ragwire_rag::{ParseError, ParseLimits, parse};

use super::{ExtractError, Outcome, SEPARATOR};

/// The longest name that is read, in bytes. Those of the library are far shorter.
const MAX_NAME_BYTES: u64 = 64 << 10;
/// A process that uses more memory after a document ends. A new one needs a tenth of it.
const MAX_RESIDENT_BYTES: u64 = 64 << 20;
/// The largest file that a program may write, at least: a drawn page.
#[cfg(unix)]
const MIN_PROGRAM_FILE: usize = 16 << 20;
/// How long the process waits for its next document.
#[cfg(unix)]
const IDLE: rustix::time::Timespec = rustix::time::Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// The arguments of the process.
#[derive(Debug, clap::Args)]
pub struct ChildOptions {
    #[arg(long)]
    max_file: usize,
    #[arg(long)]
    max_memory: u64,
    #[arg(long)]
    max_seconds: u64,
    /// The program that the process becomes after it has limited itself, instead of reading documents.
    #[arg(last = true)]
    program: Vec<OsString>,
}

/// Runs the process.
pub fn child(options: &ChildOptions) -> ExitCode {
    let done = match options.program.split_first() {
        Some((program, arguments)) => become_program(options, program, arguments),
        None => serve(options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Limits this process and runs a program in its place. Returns only if that fails.
#[cfg(unix)]
fn become_program(options: &ChildOptions, program: &OsStr, arguments: &[OsString]) -> std::io::Result<()> {
    use std::os::unix::process::CommandExt;
    // Such programs copy their input into a file without a name.
    confine(options.max_memory, options.max_file.max(MIN_PROGRAM_FILE) as u64)?;
    allow_seconds(options.max_seconds)?;
    Err(Command::new(program).args(arguments).exec())
}

#[cfg(not(unix))]
fn become_program(_options: &ChildOptions, program: &OsStr, arguments: &[OsString]) -> std::io::Result<()> {
    let status = Command::new(program).args(arguments).status()?;
    status.success().then_some(()).ok_or(ErrorKind::Other.into())
}

fn serve(options: &ChildOptions) -> std::io::Result<()> {
    let (mut input, mut output) = pipes()?;
    // The process writes no files. What it has mapped so far, such as shared libraries, is not for
    // documents.
    let mapped = memory().map_or(0, |memory| memory.mapped);
    confine(options.max_memory.saturating_add(mapped), 0)?;
    output.write_all(&[SEPARATOR])?;
    let mut limits = ParseLimits::default();
    limits.max_file_bytes = options.max_file;
    while next(&input)? {
        let Some((name, bytes)) = receive(&mut input, options.max_file as u64)? else {
            return Ok(());
        };
        allow_seconds(options.max_seconds)?;
        let outcome = match parse(&name, &bytes, &limits) {
            Ok(parsed) => Outcome::Parsed(parsed),
            Err(error) => Outcome::Error(ExtractError::new(
                (&error).into(),
                error.code(),
                &public_message(&error),
            )),
        };
        drop(bytes);
        send(&mut output, &outcome)?;
        drop(outcome);
        if !stays() {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the name and the content of the next document, or `None` after the last one. Of
/// a content that is too long only enough is read to notice.
fn receive(input: &mut File, max_bytes: u64) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let mut length = [0; 8];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let name_bytes = u64::from_le_bytes(length);
    input.read_exact(&mut length)?;
    let content_bytes = u64::from_le_bytes(length);
    if name_bytes > MAX_NAME_BYTES {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut name = vec![0; name_bytes as usize];
    input.read_exact(&mut name)?;
    let mut content = Vec::new();
    Read::take(&mut *input, content_bytes.min(max_bytes + 1)).read_to_end(&mut content)?;
    // So that the next document is found.
    let rest = content_bytes - content.len() as u64;
    std::io::copy(&mut Read::take(&mut *input, rest), &mut std::io::sink())?;
    Ok(Some((String::from_utf8_lossy(&name).into_owned(), content)))
}

fn send(output: &mut File, outcome: &Outcome) -> std::io::Result<()> {
    let json = serde_json::to_vec(outcome)?;
    let mut frame = vec![SEPARATOR];
    frame.extend((json.len() as u64).to_le_bytes());
    output.write_all(&frame)?;
    output.write_all(&json)
}

/// Returns the message for the user, without the details of a parser about a damaged file.
fn public_message(error: &ParseError) -> String {
    match error {
        ParseError::BadPdf { .. } => "the pdf is damaged".to_owned(),
        ParseError::Damaged { what, .. } => format!("the {what} is damaged"),
        error => error.to_string(),
    }
}

/// Returns where documents come from and where outcomes go. What parsers print goes nowhere: it
/// must not look like an outcome.
#[cfg(unix)]
fn pipes() -> std::io::Result<(File, File)> {
    use std::os::fd::AsFd;
    let input = std::io::stdin().as_fd().try_clone_to_owned()?;
    let output = std::io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok((input.into(), output.into()))
}

#[cfg(windows)]
fn pipes() -> std::io::Result<(File, File)> {
    use std::os::windows::io::AsHandle;
    let input = std::io::stdin().as_handle().try_clone_to_owned()?;
    let output = std::io::stdout().as_handle().try_clone_to_owned()?;
    Ok((input.into(), output.into()))
}

/// Waits for the next document. Returns `false` if none comes for a while.
#[cfg(unix)]
fn next(input: &File) -> std::io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, poll};
    let ready = poll(&mut [PollFd::new(input, PollFlags::IN)], Some(&IDLE))?;
    Ok(ready > 0)
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the unix one can fail")]
fn next(_input: &File) -> std::io::Result<bool> {
    Ok(true)
}

/// Returns whether the process may read a further document. Where its memory is not known, and
/// where parsers can print into the replies, it reads one only.
fn stays() -> bool {
    memory().is_some_and(|memory| memory.resident <= MAX_RESIDENT_BYTES)
}

/// The memory of this process, in bytes.
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "it is known on Linux only")
)]
struct Memory {
    /// Addresses that are in use, with those of files.
    mapped: u64,
    resident: u64,
}

#[cfg(target_os = "linux")]
fn memory() -> Option<Memory> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut bytes = pages
        .split(' ')
        .map_while(|pages| Some(pages.parse::<u64>().ok()? * rustix::param::page_size() as u64));
    Some(Memory {
        mapped: bytes.next()?,
        resident: bytes.next()?,
    })
}

#[cfg(not(target_os = "linux"))]
fn memory() -> Option<Memory> {
    None
}

/// Limits the resources of this process before it reads the first byte.
#[cfg(unix)]
fn confine(max_memory: u64, max_file: u64) -> std::io::Result<()> {
    use rlimit::Resource;
    for (resource, most) in [
        (Resource::AS, max_memory),
        (Resource::FSIZE, max_file),
        // A core dump would contain the document.
        (Resource::CORE, 0),
    ] {
        rlimit::setrlimit(resource, most, most)?;
    }
    Ok(())
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the unix one can fail")]
fn confine(_max_memory: u64, _max_file: u64) -> std::io::Result<()> {
    Ok(())
}

/// Allows so much processor time for the next document, in case the parent was killed and cannot
/// enforce the time-out.
#[cfg(unix)]
fn allow_seconds(seconds: u64) -> std::io::Result<()> {
    use rlimit::Resource;
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let used = u64::try_from(used.tv_sec).unwrap_or_default() + 1;
    let hard = Resource::CPU.get_hard()?;
    Resource::CPU.set((used + seconds).min(hard), hard)
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the unix one can fail")]
fn allow_seconds(_seconds: u64) -> std::io::Result<()> {
    Ok(())
}
