//! An embedder without a model: each word is a direction, and rare letters count more than common
//! ones. With it, vector search is measured on every machine.

use ragwire_rag::models::{Boxed, Embed, ModelError, Side, normalize};

const DIMENSIONS: usize = 512;
/// Shorter words are mostly function words.
const MIN_LETTERS: usize = 4;
/// How many letters of a word count, so that `attending` and `attention` are similar.
const STEM_LETTERS: usize = 6;

#[derive(Debug)]
pub(crate) struct HashedWords;

fn words(text: &str) -> Vec<Vec<f32>> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words =
        words.filter(|word| word.chars().count() >= MIN_LETTERS || word.chars().any(|c| c.is_ascii_digit()));
    let vector = |word: &str| {
        let stem = word.to_lowercase().chars().take(STEM_LETTERS).collect::<String>();
        let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let hash = stem.bytes().fold(0xcbf2_9ce4_8422_2325, step);
        let mut vector = vec![0.0; DIMENSIONS];
        vector[(hash >> 32) as usize % DIMENSIONS] = 1.0;
        vector
    };
    words.map(vector).collect()
}

impl Embed for HashedWords {
    fn name(&self) -> &str {
        "hashed words"
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn embed(&self, _: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<f32>>, ModelError>> {
        let vector = |text: &String| {
            let mut sum = vec![0.0; DIMENSIONS];
            for word in words(text) {
                sum.iter_mut().zip(word).for_each(|(sum, value)| *sum += value);
            }
            // Each repetition of a word adds less.
            sum.iter_mut().for_each(|value: &mut f32| *value = value.sqrt());
            normalize(&mut sum);
            sum
        };
        Box::pin(std::future::ready(Ok(texts.iter().map(vector).collect())))
    }

    fn embed_tokens(&self, _: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<Vec<f32>>>, ModelError>> {
        Box::pin(std::future::ready(Ok(texts
            .iter()
            .map(|text| words(text))
            .collect())))
    }
}
