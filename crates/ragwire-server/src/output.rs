//! Lines on stdout and stderr. `println!` panics if nothing reads them any more, as with `| head`: a
//! server must survive that, and a command ends with its own status.

/// Prints a line to stdout.
macro_rules! print_line {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{}\n", format_args!($($text)*)));
    }};
}

/// Prints a line to stderr, where everything except results goes.
macro_rules! report_line {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($text)*)));
    }};
}

pub(crate) use {print_line, report_line};
