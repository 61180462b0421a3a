//! Cuts long texts into pieces, for wires whose readers hold one object in memory.

/// The longest piece in bytes. As JSON it has at most six times as many, which is within the limits
/// of our decoders and of the published clients.
const MAX_PIECE_BYTES: usize = 64 * 1024;

/// Cuts `text` at character boundaries. A text within the limit is one piece.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(MAX_PIECE_BYTES));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_at_characters() {
        let text = format!("a{}", "\u{20ac}".repeat(MAX_PIECE_BYTES));
        let cut: Vec<&str> = pieces(&text).collect();
        assert_eq!((cut.len(), cut.concat()), (4, text));
        assert!(cut.iter().all(|piece| piece.len() <= MAX_PIECE_BYTES));
        assert_eq!(pieces("abc").collect::<Vec<_>>(), ["abc"]);
        assert_eq!(pieces("").count(), 0);
    }
}
