//! Entry IDs survive encoding and decoding.

use super::*;

#[test]
fn an_entry_id_contains_epoch_and_index() {
    for (epoch, index, id) in [(1, 0, "1-1"), (2, 41, "2-42")] {
        assert_eq!(entry_id(epoch, index), id);
        assert_eq!(parse_entry_id(id), Some((epoch, index)));
    }
    for id in ["", "1", "1-0", "-1", "a-1", "1-a", "1-1-1"] {
        assert_eq!(parse_entry_id(id), None, "{id}");
    }
}
