//! GGUF files (version 3) as llama.cpp reads them, for models that a test makes up.
//!
//! It writes what it is told, also what no loader would take: the keys and the names of tensors are the caller's.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const VERSION: u32 = 3;
/// Where tensors begin, unless the file says another one.
const ALIGNMENT: u64 = 32;

/// What stands under a key.
#[derive(Clone, Debug)]
pub enum Value {
    /// A number that is not negative.
    U32(u32),
    /// A number.
    I32(i32),
    /// A fraction.
    F32(f32),
    /// Yes or no.
    Bool(bool),
    /// A text.
    Text(String),
    /// Some texts.
    Texts(Vec<String>),
    /// Some numbers.
    I32s(Vec<i32>),
    /// Some fractions.
    F32s(Vec<f32>),
}

impl Value {
    /// `GGUF_TYPE_*` of it; of several, the one of each.
    fn kind(&self) -> u32 {
        match self {
            Self::U32(_) => 4,
            Self::I32(_) | Self::I32s(_) => 5,
            Self::F32(_) | Self::F32s(_) => 6,
            Self::Bool(_) => 7,
            Self::Text(_) | Self::Texts(_) => 8,
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let array = |out: &mut dyn Write, length: usize| {
            out.write_all(&9_u32.to_le_bytes())?;
            out.write_all(&self.kind().to_le_bytes())?;
            out.write_all(&(length as u64).to_le_bytes())
        };
        match self {
            Self::Texts(texts) => array(out, texts.len())?,
            Self::I32s(numbers) => array(out, numbers.len())?,
            Self::F32s(numbers) => array(out, numbers.len())?,
            _ => out.write_all(&self.kind().to_le_bytes())?,
        }
        match self {
            Self::U32(number) => out.write_all(&number.to_le_bytes()),
            Self::I32(number) => out.write_all(&number.to_le_bytes()),
            Self::F32(number) => out.write_all(&number.to_le_bytes()),
            Self::Bool(yes) => out.write_all(&[u8::from(*yes)]),
            Self::Text(text) => write_text(out, text),
            Self::Texts(texts) => texts.iter().try_for_each(|text| write_text(out, text)),
            Self::I32s(numbers) => numbers
                .iter()
                .try_for_each(|number| out.write_all(&number.to_le_bytes())),
            Self::F32s(numbers) => numbers
                .iter()
                .try_for_each(|number| out.write_all(&number.to_le_bytes())),
        }
    }
}

/// A file that is put together.
#[derive(Clone, Debug, Default)]
pub struct Gguf {
    meta: Vec<(String, Value)>,
    tensors: Vec<Tensor>,
}

#[derive(Clone, Debug)]
struct Tensor {
    name: String,
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Gguf {
    /// Puts a value under a key.
    pub fn meta(&mut self, key: &str, value: Value) -> &mut Self {
        self.meta.push((key.to_owned(), value));
        self
    }

    /// Adds a tensor of f32. Its shape has the innermost length first: of a matrix, what goes in and then what comes out.
    pub fn tensor(&mut self, name: &str, shape: &[usize], values: Vec<f32>) -> &mut Self {
        assert_eq!(
            shape.iter().product::<usize>(),
            values.len(),
            "{name} has as many values as its shape"
        );
        self.tensors.push(Tensor {
            name: name.to_owned(),
            shape: shape.to_vec(),
            values,
        });
        self
    }

    /// Writes the file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut out = Counted {
            out: BufWriter::new(File::create(path)?),
            bytes: 0,
        };
        out.write_all(b"GGUF")?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&(self.tensors.len() as u64).to_le_bytes())?;
        out.write_all(&(self.meta.len() as u64).to_le_bytes())?;
        for (key, value) in &self.meta {
            write_text(&mut out, key)?;
            value.write(&mut out)?;
        }
        let mut offset = 0_u64;
        for tensor in &self.tensors {
            write_text(&mut out, &tensor.name)?;
            out.write_all(&(tensor.shape.len() as u32).to_le_bytes())?;
            for length in &tensor.shape {
                out.write_all(&(*length as u64).to_le_bytes())?;
            }
            // `GGML_TYPE_F32`.
            out.write_all(&0_u32.to_le_bytes())?;
            out.write_all(&offset.to_le_bytes())?;
            offset += (tensor.values.len() as u64 * 4).next_multiple_of(ALIGNMENT);
        }
        for tensor in &self.tensors {
            out.align()?;
            for value in &tensor.values {
                out.write_all(&value.to_le_bytes())?;
            }
        }
        out.align()?;
        out.flush()
    }
}

fn write_text(out: &mut dyn Write, text: &str) -> io::Result<()> {
    out.write_all(&(text.len() as u64).to_le_bytes())?;
    out.write_all(text.as_bytes())
}

/// Knows how far it is.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Counted<W> {
    fn align(&mut self) -> io::Result<()> {
        let padding = self.bytes.next_multiple_of(ALIGNMENT) - self.bytes;
        self.write_all(&[0; ALIGNMENT as usize][..padding as usize])
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
