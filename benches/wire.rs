//! The framed wire alone: the cost of encoding and decoding a turn, without tasks and sockets.
//!
//! The limit is serde_json for events and a copy of the bytes for texts; `copy` is that copy alone,
//! as the baseline.

mod workload;

use bytes::BytesMut;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ragwire::wire::{Decode, Wire};
use ragwire::{Frame, Framed, Timestamp};

fn frames() -> Vec<Frame> {
    let timestamp = Some(Timestamp::from_micros(1_767_323_045_678_000));
    let events = workload::events()
        .into_iter()
        .map(|event| Frame::Event { event, timestamp });
    let texts = workload::texts()
        .into_iter()
        .map(|text| Frame::Text(text.to_owned()));
    events.chain(texts).chain([Frame::End(workload::end())]).collect()
}

fn encode(frames: &[Frame]) -> BytesMut {
    let (mut encoder, mut bytes) = (Framed::default().encoder(), BytesMut::with_capacity(16 * 1024));
    for frame in frames {
        encoder.encode(frame, &mut bytes).expect("the workload is legal");
    }
    bytes
}

fn wire(criterion: &mut Criterion) {
    let frames = frames();
    let bytes = encode(&frames).freeze();
    let mut group = criterion.benchmark_group("framed: 24 events, 312 texts, 1.6 KB trailer");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("copy", |bencher| bencher.iter(|| BytesMut::from(&bytes[..])));
    group.bench_function("encode", |bencher| bencher.iter(|| encode(&frames)));
    for chunk in [bytes.len(), 64, 1] {
        group.bench_function(format!("decode, {chunk} bytes at a time"), |bencher| {
            bencher.iter(|| {
                let mut decoder = Framed::default().decoder();
                let mut decoded = 0;
                for chunk in bytes.chunks(chunk) {
                    decoder.feed(chunk);
                    decoded += decoder.by_ref().filter(Result::is_ok).count();
                }
                decoded
            });
        });
    }
    group.finish();
}

criterion_group!(benches, wire);
criterion_main!(benches);
