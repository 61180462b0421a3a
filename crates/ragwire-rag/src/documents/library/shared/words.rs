//! The requests of a shared library about single words: how rare they are, and how they are spelled.

use qdrant_client::qdrant::vector_output::Vector as VectorOutput;
use qdrant_client::qdrant::vectors_output::VectorsOptions;
use qdrant_client::qdrant::{
    Condition, Filter, ScoredPoint, ScrollPoints, SparseVector, VectorsSelector, WithVectorsSelector,
    with_vectors_selector,
};

use super::Selection;
use super::records::{self, LETTERS, START, START_LETTERS, WORDS, term_index};
use super::remote::{Remote, all_fields, no_vectors, number_of, selected};
use crate::search::store::StoreError;

/// Words of the library that are compared with a misspelled one: those with the most common pairs of
/// letters.
const SIMILAR_WORDS: u64 = 64;
/// Words that may stand for a prefix.
const PREFIX_WORDS: u32 = 1_024;

impl Remote {
    /// Returns for each term the passages with its greatest weight, at most `most`, each with the term's rarity:
    /// BM25's inverse document frequency over all passages.
    pub(super) async fn rarities(
        &self,
        terms: &[String],
        selection: &Selection,
        most: u64,
    ) -> Result<Vec<Vec<(u64, f32)>>, StoreError> {
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        let filter = selected(selection.clone());
        let request = |term: &String| {
            let vector = SparseVector {
                values: vec![1.0],
                indices: vec![term_index(term)],
            };
            let mut request = self.nearest(vector, WORDS, most);
            request.filter.clone_from(&filter);
            request.with_vectors = Some(WithVectorsSelector {
                selector_options: Some(with_vectors_selector::SelectorOptions::Include(VectorsSelector {
                    names: vec![WORDS.to_owned()],
                })),
            });
            request
        };
        let found = self.query(terms.iter().map(request).collect()).await?;
        // The score of a passage is the term's weight in it, times the rarity.
        let rarity = |point: ScoredPoint, term: &String| {
            let (number, score) = (number_of(point.id.as_ref())?, point.score);
            Some((number, score / weight_in(point, term_index(term))?))
        };
        let rarities = found.into_iter().zip(terms).map(|(points, term)| {
            let points = points.into_iter();
            points.filter_map(|point| rarity(point, term)).collect()
        });
        Ok(rarities.collect())
    }

    /// Returns terms of words that are spelled like this one, with their spellings.
    pub(super) async fn similar(&self, form: &str) -> Result<Vec<(String, Vec<String>)>, StoreError> {
        let mut request = self.nearest(records::letters(form), LETTERS, SIMILAR_WORDS);
        request.with_payload = Some(all_fields());
        let found = self.query(vec![request]).await?.pop().unwrap_or_default();
        let words = found.into_iter().map(|point| point.payload);
        Ok(words.filter_map(|word| records::read_word(&word)).collect())
    }

    /// Returns terms that begin with `prefix`, which has at least three letters.
    pub(super) async fn terms_with_prefix(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let start: String = prefix.chars().take(START_LETTERS).collect();
        let request = ScrollPoints {
            collection_name: self.collection.clone(),
            filter: Some(Filter::must([Condition::matches(START, start)])),
            limit: Some(PREFIX_WORDS),
            with_payload: Some(all_fields()),
            with_vectors: Some(no_vectors()),
            ..ScrollPoints::default()
        };
        let client = &self.connection.client;
        let found = self.send(|| client.scroll(request.clone())).await?.result;
        let words = found
            .into_iter()
            .filter_map(|point| records::read_word(&point.payload));
        let terms = words.map(|(term, _)| term);
        Ok(terms.filter(|term| term.starts_with(prefix)).collect())
    }
}

/// Returns the weight of a term in a passage.
fn weight_in(point: ScoredPoint, index: u32) -> Option<f32> {
    let VectorsOptions::Vectors(mut named) = point.vectors?.vectors_options? else {
        return None;
    };
    match named.vectors.remove(WORDS)?.into_vector() {
        VectorOutput::Sparse(sparse) => {
            let at = sparse.indices.iter().position(|known| *known == index)?;
            sparse.values.get(at).copied()
        }
        VectorOutput::Dense(_) | VectorOutput::MultiDense(_) => None,
    }
}
