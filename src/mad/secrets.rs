//! Blanking of keys, so that recordings, traces and streams hold none.
//!
//! Blanked are: M_Key of SMPs and trap 256, SM_Key of the SA header, every
//! field declared secret (also in each record of a table and in each segment
//! of an RMPP message), the keys in the headers of PerfMgt, BM and congestion
//! control, the keys in those classes' violation notices, CongestionKeyInfo,
//! and all data of vendor classes, where keys may be anywhere.

use std::ops::Range;

use super::field::{Field, Show};
use super::rmpp::SEGMENT_DATA;
use super::{Attribute, MAD_LEN, Mad, MadView, MgmtClass, Notice, data_offset, registry};

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

#[cfg(test)]
mod tests {
    use super::super::rmpp;
    use super::super::{Method, PortInfo, PortInfoRecord, ServiceRecord, SmInfo, SmInfoRecord};
    use super::*;

    /// Unlikely to come about by chance, and each byte of it not zero.
    const KEY: u64 = 0x5ec2e75ec2e75ec2;

    fn holds_key(mad: &Mad) -> bool {
        // Any three bytes of it in a row: a segment may hold only a part.
        mad.bytes()
            .windows(3)
            .any(|w| KEY.to_be_bytes().windows(3).any(|k| k == w))
    }

    /// Blanks, and checks that all keys and nothing but keys were zeroed.
    fn blanked(mad: &mut Mad) {
        assert!(holds_key(mad));
        let before = mad.clone();
        assert!(blank(mad));
        assert!(!holds_key(mad), "{mad}");
        assert!(!blank(mad), "nothing is left to blank");
        let lost: Vec<_> = before
            .bytes()
            .iter()
            .zip(mad.bytes())
            .filter(|(a, b)| a != b)
            .collect();
        assert!(
            lost.iter().all(|(a, _)| KEY.to_be_bytes().contains(a)),
            "{lost:?}"
        );
        assert_eq!(before.len(), mad.len());
    }

    fn port_info() -> PortInfo {
        let mut info = PortInfo::new();
        info.set_m_key(KEY)
            .set_lid(0x1111)
            .set_gid_prefix(0x1111111111111111);
        info
    }

    #[test]
    fn smp_keys_are_blanked_in_header_and_data() {
        for mut mad in [
            Mad::smp_lid(Method::Get, PortInfo::ID, 1, 1),
            Mad::smp_dr(Method::Set, PortInfo::ID, 1, &[1, 2], 1).unwrap(),
        ] {
            mad.set_m_key(KEY);
            mad.set_data(&port_info());
            blanked(&mut mad);
            assert_eq!(PortInfo::parse(&mad.view()).unwrap().lid(), 0x1111);
        }
        let mut info = SmInfo::new();
        info.set_sm_key(KEY).set_guid(0x1111);
        let mut mad = Mad::smp_lid(Method::GetResp, SmInfo::ID, 0, 1);
        mad.set_data(&info);
        blanked(&mut mad);
    }

    #[test]
    fn keys_in_headers_of_gmps_are_blanked() {
        let mut sa = Mad::sa(Method::Get, 0x35, 0, u64::MAX, 1);
        sa.set_sm_key(KEY);
        blanked(&mut sa);
        for class in [MgmtClass::Perf, MgmtClass::BoardMgt, MgmtClass::CongCtrl] {
            let mut mad = Mad::request(class, Method::Get, 0x12, 0, 1);
            mad.bytes_mut()[24..32].copy_from_slice(&KEY.to_be_bytes());
            blanked(&mut mad);
        }
        let mut vendor = Mad::request(MgmtClass::new(0x0a), Method::Get, 0x50, 0, 1);
        vendor.bytes_mut()[70..78].copy_from_slice(&KEY.to_be_bytes());
        blanked(&mut vendor);
        let mut vendor = Mad::request(MgmtClass::new(0x31), Method::Get, 0x50, 0, 1);
        vendor.bytes_mut()[37..40].copy_from_slice(&[0, 2, 0xc9]);
        vendor.bytes_mut()[248..256].copy_from_slice(&KEY.to_be_bytes());
        blanked(&mut vendor);
        assert_eq!(vendor.bytes()[37..40], [0, 2, 0xc9]);
    }

    #[test]
    fn trap_256_loses_its_key_and_no_other_trap_its_details() {
        let mut notice = Notice::new();
        notice.set_is_generic(true).set_trap_number(256);
        let mut details = [0; 54];
        // At 24 in the notice, 14 in its details.
        details[14..22].copy_from_slice(&KEY.to_be_bytes());
        notice.set_details(details);
        for mut mad in [
            Mad::smp_lid(Method::Trap, Notice::ID, 0, 1),
            Mad::smp_dr(Method::TrapRepress, Notice::ID, 0, &[], 1).unwrap(),
            Mad::sa(Method::Report, Notice::ID, 0, 0, 1),
        ] {
            mad.set_data(&notice);
            blanked(&mut mad);
            mad.set_data(notice.set_trap_number(257));
            assert!(!blank(&mut mad));
            notice.set_trap_number(256);
        }
    }

    fn tables() -> [Mad; 3] {
        let request = |id| Mad::sa(Method::GetTable, id, 0, 0, 1);
        let mut port = PortInfoRecord::new();
        port.set_lid(0x1111).set_port_info(port_info());
        let mut sm = SmInfoRecord::new();
        let mut info = SmInfo::new();
        info.set_sm_key(KEY);
        sm.set_lid(0x1111).set_sm_info(info);
        let mut service = ServiceRecord::new();
        let mut key = [0; 16];
        key[..8].copy_from_slice(&KEY.to_be_bytes());
        key[8..].copy_from_slice(&KEY.to_be_bytes());
        service.set_service_id(0x1111).set_key(key);
        [
            Mad::reply_table(&request(PortInfoRecord::ID).view(), &[port; 100]),
            Mad::reply_table(&request(SmInfoRecord::ID).view(), &[sm; 100]),
            Mad::reply_table(&request(ServiceRecord::ID).view(), &[service; 100]),
        ]
    }

    #[test]
    fn every_record_of_a_table_is_blanked() {
        for mut table in tables() {
            blanked(&mut table);
        }
    }

    #[test]
    fn every_segment_is_blanked_wherever_its_records_begin() {
        for table in tables() {
            for mut segment in rmpp::split(&table.view()) {
                // Some segment may end before a key begins.
                if holds_key(&segment) {
                    blanked(&mut segment);
                }
                blank(&mut segment);
                let key = KEY.to_be_bytes();
                assert!(
                    !segment.bytes().iter().any(|byte| key.contains(byte)),
                    "{segment}"
                );
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_survived_and_stay_blank(
            mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 24..600),
            info in proptest::sample::select((0..registry::ALL.len()).collect::<Vec<_>>()),
            class in proptest::sample::select(vec![1u8, 3, 4, 5, 0x0a, 0x21, 0x31, 0x81]),
        ) {
            bytes[1] = class;
            bytes[16..18].copy_from_slice(&registry::ALL[info].id.to_be_bytes());
            let mut mad = Mad::from_bytes(&bytes).unwrap();
            blank(&mut mad);
            assert!(!blank(&mut mad));
            assert_eq!(mad.len(), bytes.len());
        }
    }
}
