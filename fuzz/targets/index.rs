//! Any bytes as a file that is looked through for its keyframes and marks, and read from each of
//! them on.

#![no_main]

use std::io::Write;

use fabtop::record::Seeker;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("fabtop-fuzz-{}", std::process::id()));
    let mut file = std::fs::File::create(&path).expect("a temporary file");
    // Half of the inputs are taken for compressed ones.
    if bytes.first().is_some_and(|b| b & 1 == 1) {
        file.write_all(&0xFD2F_B528u32.to_le_bytes()).expect("written");
    }
    file.write_all(bytes).expect("written");
    let seeker = Seeker::open(&path).expect("it can be read, whatever it holds");
    let points = seeker.points().to_vec();
    for point in points.iter().take(8) {
        if let Ok(reader) = seeker.resume(point.wall) {
            reader.take(1000).for_each(drop);
        }
    }
    let _ = std::fs::remove_file(path);
});
