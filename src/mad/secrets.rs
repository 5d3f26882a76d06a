//! Blanking of keys, so that recordings, traces and streams hold none.
//!
//! Blanked are: M_Key of SMPs and trap 256, SM_Key of the SA header, every
//! field declared secret (also in each record of a table and in each segment
//! of an RMPP message), the keys in the headers of PerfMgt, BM and congestion
//! control, the keys in those classes' violation notices, CongestionKeyInfo,
//! and all data of vendor classes, where keys may be anywhere.

use std::ops::Range;

use super::attr::Attribute;
use super::attr::{Field, Show};
use super::rmpp::SEGMENT_DATA;
use super::{MAD_LEN, Mad, MadView, MgmtClass, Notice, data_offset, registry};

/// A notice that reports a wrong key, with that key in it.
struct KeyNotice {
    class: MgmtClass,
    trap: u16,
    /// Bytes of the notice.
    key: Range<usize>,
}

/// Trap 256 reaches us by SMP and by the SA's report; the others are of their
/// classes (spec 16.2, annex A10).
const KEY_NOTICES: &[KeyNotice] = &[
    KeyNotice {
        class: MgmtClass::SubnLid,
        trap: 256,
        key: 24..32,
    },
    KeyNotice {
        class: MgmtClass::SubnDirected,
        trap: 256,
        key: 24..32,
    },
    KeyNotice {
        class: MgmtClass::SubnAdm,
        trap: 256,
        key: 24..32,
    },
    KeyNotice {
        class: MgmtClass::BoardMgt,
        trap: 259,
        key: 24..32,
    },
    KeyNotice {
        class: MgmtClass::CongCtrl,
        trap: 0,
        key: 26..34,
    },
];

/// CongestionKeyInfo, whose first field is the CC_Key.
const CONGESTION_KEY_INFO: u16 = 0x12;

/// Zeroes every secret in a MAD; returns whether there was one that was not
/// zero already.
pub fn blank(mad: &mut Mad) -> bool {
    let view = mad.view();
    let class = view.class();
    let mut any = false;
    let mut zero = |mad: &mut Mad, range: Range<usize>| {
        for byte in mad.bytes_mut().iter_mut().take(range.end).skip(range.start) {
            any |= *byte != 0;
            *byte = 0;
        }
    };
    let (id, data) = (view.attr_id(), data_offset(class));
    match class {
        MgmtClass::SubnLid | MgmtClass::SubnDirected => zero(mad, 24..32),
        MgmtClass::SubnAdm => zero(mad, 36..44),
        // PM_Key; the bytes after it are reserved.
        MgmtClass::Perf => zero(mad, 24..64),
        // B_Key, CC_Key.
        MgmtClass::BoardMgt | MgmtClass::CongCtrl => zero(mad, 24..32),
        other => match other.vendor_range() {
            Some(1) => zero(mad, 24..usize::MAX),
            // The RMPP header and the OUI stay.
            Some(_) => zero(mad, 40..usize::MAX),
            None => {}
        },
    }
    if class == MgmtClass::CongCtrl && id == CONGESTION_KEY_INFO {
        zero(mad, data..data + 8);
    }
    if id == Notice::ID {
        if let Some(range) = notice_key(&mad.view()) {
            zero(mad, data + range.start..data + range.end);
        }
    } else if let Some(info) = registry::find(class, id) {
        let mut secret = Vec::new();
        secret_bytes(info.fields, 0, &mut secret);
        if !secret.is_empty() {
            for range in in_records(&mad.view(), &secret) {
                zero(mad, data + range.start..data + range.end);
            }
        }
    }
    any
}

/// Where the key of a notice is, if it holds one.
fn notice_key(mad: &MadView<'_>) -> Option<Range<usize>> {
    // A notice cut short may still hold the key.
    let mut bytes = [0; Notice::LEN];
    for (to, from) in bytes.iter_mut().zip(mad.data()) {
        *to = *from;
    }
    let notice = Notice::from_bytes(&bytes).ok()?;
    let known = KEY_NOTICES
        .iter()
        .find(|known| known.class == mad.class() && known.trap == notice.trap_number());
    known
        .filter(|_| notice.is_generic())
        .map(|known| known.key.clone())
}

/// The bytes of all secret fields, nested ones included.
fn secret_bytes(fields: &[Field], base: usize, found: &mut Vec<Range<usize>>) {
    for field in fields {
        let at = base + field.bit / 8;
        if let Show::Nested(inner) = field.show {
            secret_bytes(inner, at, found);
        } else if field.secret {
            found.push(at..at + field.width.div_ceil(8));
        }
    }
}

/// The secret bytes of each record that the MAD's data holds, also where it is
/// a segment that begins in the midst of a record.
fn in_records(mad: &MadView<'_>, secret: &[Range<usize>]) -> Vec<Range<usize>> {
    let len = mad.data().len();
    let step = usize::from(mad.attribute_offset()) * 8;
    let table = mad.class() == MgmtClass::SubnAdm && step > 0;
    if !table {
        return secret.to_vec();
    }
    // A long message starts at its beginning whatever its segment number says.
    let skipped = match mad.rmpp() {
        Some(header) if header.is_active_data() && mad.len() <= MAD_LEN => (header.segment
            as usize)
            .saturating_sub(1)
            .saturating_mul(SEGMENT_DATA),
        _ => 0,
    };
    // The first record may have begun in an earlier segment.
    let into = skipped % step;
    let mut found = Vec::new();
    for start in (0..len + into).step_by(step) {
        for range in secret {
            let from = (start + range.start).max(into) - into;
            let to = (start + range.end).saturating_sub(into);
            // A secret beyond the record's length is the next one's business.
            if from < to && range.start < step {
                found.push(from..to);
            }
        }
    }
    found
}
