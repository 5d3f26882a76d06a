//! The MAD itself: an owned one, a borrowed view, and their headers.

use std::fmt;

use super::attr::{Attribute, get_bits, put_bits};
use super::names;
use super::rmpp;
use super::status::Status;
use super::{Malformed, Method, MgmtClass};

/// Length of a MAD on the wire.
pub const MAD_LEN: usize = 256;
/// Length of the header that all classes share (spec 13.4.2).
pub const HEADER_LEN: usize = 24;
/// The most hops a directed route can have (spec 14.2.1.2).
pub const MAX_HOPS: usize = 63;

/// First byte of a class's attribute data.
pub const fn data_offset(class: MgmtClass) -> usize {
    match class {
        MgmtClass::SubnAdm => 56,
        MgmtClass::ComMgt => 24,
        other => match other.vendor_range() {
            Some(1) => 24,
            Some(_) => 40,
            None => 64,
        },
    }
}

/// A borrowed MAD. Every access is checked and none can fail: what lies beyond
/// the end reads as zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MadView<'a>(&'a [u8]);

macro_rules! header {
    ($( $(#[$doc:meta])* $get:ident, $set:ident: $type:ty = $byte:literal, $width:literal; )*) => {
        impl MadView<'_> {
            $( $(#[$doc])* #[inline] pub fn $get(&self) -> $type {
                get_bits(self.0, $byte * 8, $width) as $type
            } )*
        }
        impl Mad {
            $( $(#[$doc])* #[inline] pub fn $get(&self) -> $type { self.view().$get() }
               #[doc = concat!("Sets what [`Mad::", stringify!($get), "`] reads.")]
               pub fn $set(&mut self, value: $type) -> &mut Self {
                   put_bits(self.bytes_mut(), $byte * 8, $width, u64::from(value));
                   self
               } )*
        }
    };
}

header! {
    /// MAD format version: 1.
    base_version, set_base_version: u8 = 0, 8;
    /// Version of the class.
    class_version, set_class_version: u8 = 2, 8;
    /// Directed route: position on the way (byte 6).
    hop_pointer, set_hop_pointer: u8 = 6, 8;
    /// Directed route: number of hops (byte 7).
    hop_count, set_hop_count: u8 = 7, 8;
    /// Transaction ID. The kernel rewrites the upper half of a request's.
    tid, set_tid: u64 = 8, 64;
    /// Attribute ID.
    attr_id, set_attr_id: u16 = 16, 16;
    /// Attribute modifier.
    attr_mod, set_attr_mod: u32 = 20, 32;
    /// SMP: the management key. Secret.
    m_key, set_m_key: u64 = 24, 64;
    /// Directed route: LID at which it starts, 0xFFFF for "here".
    dr_slid, set_dr_slid: u16 = 32, 16;
    /// Directed route: LID at which it ends, 0xFFFF for "there".
    dr_dlid, set_dr_dlid: u16 = 34, 16;
    /// SA: the SM's key. Secret.
    sm_key, set_sm_key: u64 = 36, 64;
    /// SA: distance of records in units of 8 bytes.
    attribute_offset, set_attribute_offset: u16 = 44, 16;
    /// SA: which components of the attribute a query holds.
    component_mask, set_component_mask: u64 = 48, 64;
}

/// Read-only accessors that both forms of a MAD have.
macro_rules! both {
    ($( $(#[$doc:meta])* fn $get:ident(&$self:ident) -> $type:ty $body:block )*) => {
        impl MadView<'_> {
            $( $(#[$doc])* #[inline] pub fn $get(&$self) -> $type $body )*
        }
        impl Mad {
            $( $(#[$doc])* #[inline] pub fn $get(&self) -> $type { self.view().$get() } )*
        }
    };
}

both! {
    /// Management class.
    fn class(&self) -> MgmtClass { MgmtClass::new(get_bits(self.0, 8, 8) as u8) }

    /// Method.
    fn method(&self) -> Method { Method::new(get_bits(self.0, 24, 8) as u8) }

    /// Whether the method is a response's.
    fn is_response(&self) -> bool { self.method().is_response() }

    /// Status; of a directed-route SMP without its direction bit.
    fn status(&self) -> Status {
        let raw = get_bits(self.0, 32, 16) as u16;
        Status(if self.class() == MgmtClass::SubnDirected { raw & 0x7fff } else { raw })
    }

    /// Directed route: the D bit, set on the way back.
    fn is_returning(&self) -> bool {
        self.class() == MgmtClass::SubnDirected && get_bits(self.0, 32, 1) != 0
    }

    /// The half of the transaction ID that survives the kernel: transactions
    /// are matched on it.
    fn tid_low(&self) -> u32 { self.tid() as u32 }

    /// Length in bytes as received or made; a reply of the SA may have any.
    fn len(&self) -> usize { self.0.len() }

    /// Never: a MAD has a header.
    fn is_empty(&self) -> bool { self.0.is_empty() }

    /// RMPP header, for classes that have one.
    fn rmpp(&self) -> Option<rmpp::Header> { rmpp::Header::of(&MadView(self.0)) }
}

impl<'a> MadView<'a> {
    /// A MAD has at least the common header.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER_LEN {
            return Err(Malformed::Short {
                what: "MAD",
                need: HEADER_LEN,
                have: bytes.len(),
            });
        }
        Ok(MadView(bytes))
    }

    /// All bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The attribute's bytes: from the class's data offset to the end of the
    /// MAD; of an SMP the 64 bytes it has.
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        let class = self.class();
        let data = self.0.get(data_offset(class)..).unwrap_or_default();
        if class.is_smp() {
            data.get(..64).unwrap_or(data)
        } else {
            data
        }
    }

    /// Directed route: ports to leave by, the first one that of the sender.
    pub fn initial_path(&self) -> &'a [u8] {
        self.path(128)
    }

    /// Directed route: the ports to go back by, as far as they are filled in.
    pub fn return_path(&self) -> &'a [u8] {
        self.path(192)
    }

    fn path(&self, at: usize) -> &'a [u8] {
        if self.class() != MgmtClass::SubnDirected {
            return &[];
        }
        let hops = usize::from(self.hop_count()).min(MAX_HOPS);
        // Entry 0 is reserved.
        self.0.get(at + 1..at + 1 + hops).unwrap_or_default()
    }

    /// An owned copy.
    pub fn to_mad(&self) -> Mad {
        Mad::copy(self.0)
    }
}

impl fmt::Debug for MadView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One line: class, method, attribute, modifier, TID, status. No secrets.
impl fmt::Display for MadView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, id) = (self.class(), self.attr_id());
        write!(f, "{class} {}(", self.method())?;
        match names::attribute(class, id) {
            names::UNKNOWN => write!(f, "{id:#06x}")?,
            name => f.write_str(name)?,
        }
        write!(f, ") mod {:#x} tid {:#x}", self.attr_mod(), self.tid())?;
        if class == MgmtClass::SubnDirected {
            write!(f, " path 0")?;
            self.initial_path()
                .iter()
                .try_for_each(|port| write!(f, ",{port}"))?;
        }
        if !self.status().is_ok() {
            write!(f, " status {}", self.status().words(class))?;
        }
        Ok(())
    }
}

#[derive(Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "inline on purpose: no allocation a MAD"
)]
enum Body {
    Inline { len: u16, bytes: [u8; MAD_LEN] },
    Boxed(Box<[u8]>),
}

/// An owned MAD: 256 bytes inline, or a boxed RMPP message beyond that.
///
/// A shorter one keeps its true length and reads as zero beyond it.
#[derive(Clone)]
pub struct Mad(Body);

impl Mad {
    /// Copies a MAD; it must have at least the 24 bytes of the common header.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Result<Mad, Malformed> {
        MadView::new(bytes).map(|view| view.to_mad())
    }

    #[inline]
    fn copy(from: &[u8]) -> Mad {
        let mut bytes = [0; MAD_LEN];
        match bytes.get_mut(..from.len()) {
            Some(to) => {
                to.copy_from_slice(from);
                Mad(Body::Inline {
                    len: from.len() as u16,
                    bytes,
                })
            }
            None => Mad(Body::Boxed(from.into())),
        }
    }

    /// 256 zero bytes with the header of a request filled in.
    pub(crate) fn request(
        class: MgmtClass,
        method: Method,
        id: u16,
        modifier: u32,
        tid: u64,
    ) -> Mad {
        let mut mad = Mad(Body::Inline {
            len: MAD_LEN as u16,
            bytes: [0; MAD_LEN],
        });
        mad.set_base_version(1)
            .set_class(class)
            .set_class_version(class.version());
        mad.set_method(method)
            .set_attr_id(id)
            .set_attr_mod(modifier)
            .set_tid(tid);
        mad
    }

    /// A view of the bytes.
    #[inline]
    pub fn view(&self) -> MadView<'_> {
        MadView(self.bytes())
    }

    /// All bytes, at their true length.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Body::Inline { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or(bytes),
            Body::Boxed(bytes) => bytes,
        }
    }

    /// All bytes, to write to.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Body::Inline { len, bytes } => {
                let len = usize::from(*len).min(MAD_LEN);
                bytes.split_at_mut(len).0
            }
            Body::Boxed(bytes) => bytes,
        }
    }

    /// See [`MadView::data`].
    pub fn data(&self) -> &[u8] {
        self.view().data()
    }

    /// See [`MadView::initial_path`].
    pub fn initial_path(&self) -> &[u8] {
        self.view().initial_path()
    }

    /// See [`MadView::return_path`].
    pub fn return_path(&self) -> &[u8] {
        self.view().return_path()
    }

    /// Sets the management class.
    pub fn set_class(&mut self, class: MgmtClass) -> &mut Self {
        put_bits(self.bytes_mut(), 8, 8, u64::from(class.code()));
        self
    }

    /// Sets the method.
    pub fn set_method(&mut self, method: Method) -> &mut Self {
        put_bits(self.bytes_mut(), 24, 8, u64::from(method.code()));
        self
    }

    /// Sets the status; of a directed-route SMP its direction bit stays.
    pub fn set_status(&mut self, status: Status) -> &mut Self {
        let (bit, width) = if self.class() == MgmtClass::SubnDirected {
            (33, 15)
        } else {
            (32, 16)
        };
        put_bits(self.bytes_mut(), bit, width, u64::from(status.0));
        self
    }

    /// Directed route: sets the D bit.
    pub fn set_returning(&mut self, returning: bool) -> &mut Self {
        put_bits(self.bytes_mut(), 32, 1, u64::from(returning));
        self
    }

    /// Puts an attribute at the class's data offset. The attribute ID is the
    /// caller's: the builders took it.
    pub fn set_data<A: Attribute>(&mut self, attribute: &A) -> &mut Self {
        self.set_data_bytes(attribute.bytes())
    }

    /// Puts bytes at the class's data offset, as many as fit.
    pub fn set_data_bytes(&mut self, from: &[u8]) -> &mut Self {
        let at = data_offset(self.class());
        let room = if self.class().is_smp() {
            64
        } else {
            usize::MAX
        };
        let to = self.bytes_mut().get_mut(at..).unwrap_or_default();
        for (to, from) in to.iter_mut().zip(from).take(room) {
            *to = *from;
        }
        self
    }

    /// Directed route: puts the ports to go back by.
    pub fn set_return_path(&mut self, ports: &[u8]) -> &mut Self {
        let to = self.bytes_mut().get_mut(193..256).unwrap_or_default();
        for (to, from) in to.iter_mut().zip(ports) {
            *to = *from;
        }
        self
    }
}

impl PartialEq for Mad {
    fn eq(&self, other: &Mad) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Mad {}

impl fmt::Debug for Mad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.view(), f)
    }
}

impl fmt::Display for Mad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.view(), f)
    }
}

impl Mad {
    /// Takes bytes that are known to hold a header.
    pub(crate) fn boxed_or_inline(bytes: Vec<u8>) -> Mad {
        if bytes.len() > MAD_LEN {
            Mad(Body::Boxed(bytes.into()))
        } else {
            Mad::copy(&bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NodeInfo, PortCounters, PortInfo};
    use super::*;

    #[test]
    fn requests_have_their_fields_at_the_offsets_of_the_spec() {
        let mad = Mad::smp_dr(
            Method::Get,
            PortInfo::ID,
            0x8000_0007,
            &[1, 20, 3],
            0x1122334455667788,
        )
        .unwrap();
        let b = mad.bytes();
        assert_eq!(b.len(), 256);
        // Base version, class, class version, method; status; hop pointer, count.
        assert_eq!(b[..8], [1, 0x81, 1, 1, 0, 0, 0, 3]);
        assert_eq!(b[8..16], [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
        assert_eq!(b[16..24], [0, 0x15, 0, 0, 0x80, 0, 0, 7]);
        assert_eq!(b[32..36], [0xff; 4]);
        // Entry 0 of the initial path is reserved.
        assert_eq!(b[128..133], [0, 1, 20, 3, 0]);

        let b = Mad::sa(Method::GetTable, 0x11, 0, 1 << 4, 7);
        let b = b.bytes();
        assert_eq!(b[..4], [1, 3, 2, 0x12]);
        assert_eq!(b[48..56], [0, 0, 0, 0, 0, 0, 0, 0x10]);

        let b = Mad::perf_port(PortCounters::ID, 255, 7);
        assert_eq!(b.bytes()[..4], [1, 4, 1, 1]);
        assert_eq!(b.bytes()[64..66], [0, 255]);
        assert_eq!(
            Mad::smp_lid(Method::Set, 0x15, 0, 1).bytes()[..4],
            [1, 1, 1, 2]
        );
    }

    #[test]
    fn a_route_of_64_hops_is_refused() {
        assert!(Mad::smp_dr(Method::Get, 0x11, 0, &[1; 63], 1).is_ok());
        let long = Mad::smp_dr(Method::Get, 0x11, 0, &[1; 64], 1);
        assert_eq!(long.unwrap_err(), Malformed::PathTooLong { hops: 64 });
    }

    #[test]
    fn the_direction_bit_is_no_status() {
        let request = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, &[1], 1).unwrap();
        let reply = Mad::response_to(&request.view(), Status::UNSUPPORTED_ATTRIBUTE);
        assert_eq!(reply.bytes()[4..6], [0x80, 0x0c]);
        assert_eq!(reply.status(), Status::UNSUPPORTED_ATTRIBUTE);
        assert!(reply.is_returning() && reply.is_response());
        // The same bit of another class is its status.
        let perf = Mad::response_to(&Mad::perf_port(0x12, 1, 1).view(), Status(0x8000));
        assert_eq!(
            (perf.status(), perf.is_returning()),
            (Status(0x8000), false)
        );
    }

    #[test]
    fn a_short_mad_keeps_its_length_and_reads_zero_beyond() {
        assert!(Mad::from_bytes(&[1; 23]).is_err());
        let mad = Mad::from_bytes(&[0x03; 24]).unwrap();
        assert_eq!((mad.len(), mad.bytes().len()), (24, 24));
        assert_eq!(
            (mad.m_key(), mad.component_mask(), mad.data()),
            (0, 0, &[][..])
        );
        assert_eq!(Mad::from_bytes(&[7; 257]).unwrap().len(), 257);
    }

    #[test]
    fn the_wrong_attribute_is_refused() {
        let mad = Mad::smp_lid(Method::GetResp, PortInfo::ID, 0, 1);
        assert!(PortInfo::parse(&mad.view()).is_ok());
        let other = NodeInfo::parse(&mad.view()).unwrap_err();
        assert_eq!(
            other.to_string(),
            "expected NodeInfo, got SubnLID attribute 0x0015"
        );
        // Attribute 0x12 of PerfMgt is PortCounters, of SMPs SwitchInfo.
        let mad = Mad::smp_lid(Method::GetResp, PortCounters::ID, 0, 1);
        assert!(PortCounters::parse(&mad.view()).is_err());
    }

    #[test]
    fn a_line_says_what_a_mad_is() {
        let perf = Mad::perf_port(0x1d, 1, 0x99);
        assert_eq!(
            perf.to_string(),
            "Perf Get(PortCountersExtended) mod 0x0 tid 0x99"
        );
        let sa = Mad::sa(Method::GetTable, 0x1234, 0, 0, 1);
        let reply = Mad::response_to(&sa.view(), Status(0x0300));
        assert_eq!(
            reply.to_string(),
            "SubnAdm GetTableResp(0x1234) mod 0x0 tid 0x1 status no records"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_mad_or_refused(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)
        ) {
            let Ok(mad) = Mad::from_bytes(&bytes) else {
                assert!(bytes.len() < 24);
                return Ok(());
            };
            assert_eq!(mad.bytes(), bytes);
            let view = mad.view();
            let _ = (view.to_string(), view.rmpp(), view.initial_path(), view.return_path());
            let _ = Mad::response_to(&view, Status::OK).to_string();
            let _ = super::super::notice::Received::parse(&view).map(|got| got.trap().to_string());
            for field in super::super::registry::fields(&view).into_iter().flatten() {
                assert!(!field.name().is_empty());
                let _ = field.value().to_string();
            }
        }
    }
}
