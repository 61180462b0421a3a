//! The journal in memory compared with a plain vector.

use proptest::prelude::*;

use super::*;
use crate::journals::{acts, check};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_journal_behaves_like_a_vector(acts in acts(), max_turn_bytes in prop_oneof![Just(1 << 20), 1..2000_usize]) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let journal = Journal::in_memory(JournalLimits::default().max_turn_bytes(max_turn_bytes));
            check(&journal, std::slice::from_ref(&journal), acts).await;
        });
    }
}
