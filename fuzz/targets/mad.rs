//! Any bytes as a MAD: decoded, printed, blanked, and put together from its segments.

#![no_main]

use fabtop::mad::{Mad, MadView, notice, registry, rmpp, secrets};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(view) = MadView::new(bytes) else { return };
    let _ = view.to_string();
    if let Some(fields) = registry::fields(&view) {
        for field in fields {
            let _ = format!("{} = {}", field.name(), field.value());
        }
    }
    if let Ok(received) = notice::Received::parse(&view) {
        let _ = format!("{:?}", received.trap());
    }
    let Ok(mut mad) = Mad::from_bytes(bytes) else { return };
    secrets::blank(&mut mad);
    for segment in rmpp::split(&mad.view()) {
        let _ = segment.to_string();
    }
});
