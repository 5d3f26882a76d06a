//! Any bytes as a recording: pcapng, pcap, or either in zstd frames. What can be read is folded,
//! as a replay would; what cannot is named. Nothing panics, and memory stays bounded.

#![no_main]

use fabtop::model::Model;
use fabtop::record::{Problems, Reader};
use fabtop::report::{self, Format};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = Reader::new(bytes);
    let mut model = Model::new();
    for event in reader.by_ref() {
        model.apply(&event);
    }
    assert!(reader.problems().list().len() <= Problems::KEPT);
    let now = model.last();
    report::ports(&model, now, Format::Json);
    report::events(&model, now, Format::Text);
    report::topology(&model, now);
});
