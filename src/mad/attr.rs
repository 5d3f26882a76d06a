//! What an attribute is: a table of fields over a fixed number of bytes, and
//! the macro that declares one.
//!
//! A field is written down once, in [`attribute!`]: from it come the typed
//! getter and setter, the row in the field list that detail views, JSON and
//! traces print, its secrecy, and its fuzz test.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

use super::{Gid, MadView, Malformed};

/// The bits `bit..bit + width` of `bytes`, counted from the most significant
/// bit of the first byte; 0 if they are not all there.
#[inline(always)]
pub(crate) fn get_bits(bytes: &[u8], bit: usize, width: usize) -> u64 {
    let end = bit + width;
    let Some(span) = bytes.get(bit / 8..end.div_ceil(8)) else {
        return 0;
    };
    let value = span
        .iter()
        .fold(0u64, |acc, &byte| acc << 8 | u64::from(byte));
    (value >> (end.wrapping_neg() % 8)) & ones(width)
}

/// Writes the low `width` bits of `value` where [`get_bits`] reads them and
/// leaves every other bit alone; does nothing if the place is not there.
#[inline(always)]
pub(crate) fn put_bits(bytes: &mut [u8], bit: usize, width: usize, value: u64) {
    let end = bit + width;
    let Some(span) = bytes.get_mut(bit / 8..end.div_ceil(8)) else {
        return;
    };
    let shift = end.wrapping_neg() % 8;
    let mut value = (value & ones(width)) << shift;
    let mut mask = ones(width) << shift;
    for byte in span.iter_mut().rev() {
        *byte = *byte & !(mask as u8) | value as u8;
        value >>= 8;
        mask >>= 8;
    }
}

#[inline(always)]
const fn ones(width: usize) -> u64 {
    if width >= 64 {
        u64::MAX
    } else {
        (1 << width) - 1
    }
}

/// A type that a field can have.
///
/// `bit` counts from the attribute's first, most significant bit.
pub trait FieldType: Sized {
    /// Width in bits unless the declaration says otherwise.
    const BITS: usize;
    /// How it is shown.
    const SHOW: Show;
    /// How many values: more than 1 for arrays.
    const COUNT: usize = 1;
    /// Reads the value; 0 where the bytes do not reach.
    fn read(bytes: &[u8], bit: usize, width: usize) -> Self;
    /// Writes the value, cut to the width.
    fn write(self, bytes: &mut [u8], bit: usize, width: usize);
}

macro_rules! numbers {
    ($($int:ty)*) => {$(
        impl FieldType for $int {
            const BITS: usize = <$int>::BITS as usize;
            const SHOW: Show = Show::Dec;
            #[inline(always)]
            fn read(bytes: &[u8], bit: usize, width: usize) -> Self {
                get_bits(bytes, bit, width) as $int
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8], bit: usize, width: usize) {
                put_bits(bytes, bit, width, u64::from(self));
            }
        }
    )*};
}
numbers!(u8 u16 u32 u64);

impl FieldType for bool {
    const BITS: usize = 1;
    const SHOW: Show = Show::Dec;
    #[inline(always)]
    fn read(bytes: &[u8], bit: usize, width: usize) -> Self {
        get_bits(bytes, bit, width) != 0
    }
    #[inline(always)]
    fn write(self, bytes: &mut [u8], bit: usize, width: usize) {
        put_bits(bytes, bit, width, u64::from(self));
    }
}

impl FieldType for Gid {
    const BITS: usize = 128;
    const SHOW: Show = Show::Gid;
    #[inline(always)]
    fn read(bytes: &[u8], bit: usize, _: usize) -> Self {
        Gid::new(get_bits(bytes, bit, 64), get_bits(bytes, bit + 64, 64))
    }
    #[inline(always)]
    fn write(self, bytes: &mut [u8], bit: usize, _: usize) {
        put_bits(bytes, bit, 64, self.prefix());
        put_bits(bytes, bit + 64, 64, self.guid());
    }
}

impl<T: FieldType + Copy + Default, const N: usize> FieldType for [T; N] {
    const BITS: usize = T::BITS * N;
    const SHOW: Show = T::SHOW;
    const COUNT: usize = N;
    #[inline(always)]
    fn read(bytes: &[u8], bit: usize, width: usize) -> Self {
        let each = width.checked_div(N).unwrap_or(0);
        let mut values = [T::default(); N];
        for (i, value) in values.iter_mut().enumerate() {
            *value = T::read(bytes, bit + i * each, each);
        }
        values
    }
    #[inline(always)]
    fn write(self, bytes: &mut [u8], bit: usize, width: usize) {
        let each = width.checked_div(N).unwrap_or(0);
        for (i, value) in self.into_iter().enumerate() {
            value.write(bytes, bit + i * each, each);
        }
    }
}

/// How a field's value is shown.
#[derive(Clone, Copy)]
pub enum Show {
    /// A decimal number.
    Dec,
    /// A hexadecimal number, padded to the field's width.
    Hex,
    /// A code point or mask in the field's words.
    Coded(fn(u64, &mut fmt::Formatter<'_>) -> fmt::Result),
    /// A global identifier.
    Gid,
    /// Text of untrusted origin.
    Text,
    /// Bytes in hex.
    Bytes,
    /// An attribute within an attribute: its fields are listed instead.
    Nested(&'static [Field]),
}

/// One field of an attribute.
#[derive(Clone, Copy)]
pub struct Field {
    /// The name, as the spec and the usual tools spell it.
    pub name: &'static str,
    /// The unit ("words", "packets", "ticks"), or "".
    pub unit: &'static str,
    /// First bit, counted from the attribute's most significant bit.
    pub bit: usize,
    /// Width in bits of the whole field.
    pub width: usize,
    /// Number of values: more than 1 for tables (per VL, per SL, per LID).
    pub count: usize,
    /// A key that is not shown or recorded unless asked.
    pub secret: bool,
    pub(crate) show: Show,
}

impl Field {
    pub(crate) const fn of<T: FieldType>(
        name: &'static str,
        len: usize,
        bit: usize,
        width: usize,
    ) -> Field {
        assert!(bit + width <= len * 8, "field reaches beyond its attribute");
        assert!(width <= T::BITS, "field is wider than its type");
        assert!(T::COUNT == 1 && width > 64 || bit % 8 + width / T::COUNT <= 64);
        Field {
            name,
            unit: "",
            bit,
            width,
            count: T::COUNT,
            secret: false,
            show: T::SHOW,
        }
    }

    const fn unit(mut self, unit: &'static str) -> Field {
        self.unit = unit;
        self
    }
    /// Counts 32-bit words: octets divided by 4.
    pub(crate) const fn words(self) -> Field {
        self.unit("words")
    }
    pub(crate) const fn packets(self) -> Field {
        self.unit("packets")
    }
    pub(crate) const fn ticks(self) -> Field {
        self.unit("ticks")
    }
    pub(crate) const fn hex(mut self) -> Field {
        self.show = Show::Hex;
        self
    }
    pub(crate) const fn secret(mut self) -> Field {
        self.secret = true;
        self
    }
    pub(crate) const fn text(mut self) -> Field {
        self.show = Show::Text;
        self.count = 1;
        self
    }
    pub(crate) const fn raw(mut self) -> Field {
        self.show = Show::Bytes;
        self.count = 1;
        self
    }

    /// The value in an attribute's bytes, secrets hidden. `index` picks one of
    /// [`Field::count`] values.
    pub fn value<'a>(&self, bytes: &'a [u8], index: usize) -> Value<'a> {
        if self.secret {
            Value::Hidden
        } else {
            self.reveal(bytes, index)
        }
    }

    /// The value in an attribute's bytes, secrets shown.
    pub fn reveal<'a>(&self, bytes: &'a [u8], index: usize) -> Value<'a> {
        let width = self.width / self.count.max(1);
        let bit = self.bit + index * width;
        let octets = || bytes.get(bit / 8..(bit + width) / 8).unwrap_or_default();
        match self.show {
            Show::Dec => Value::Number(get_bits(bytes, bit, width)),
            Show::Hex => Value::Hex(get_bits(bytes, bit, width), width.div_ceil(4)),
            Show::Coded(show) => Value::Coded(get_bits(bytes, bit, width), show),
            Show::Gid => Value::Gid(Gid::read(bytes, bit, width)),
            Show::Text => Value::Text(octets()),
            Show::Bytes | Show::Nested(_) => Value::Bytes(octets()),
        }
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} @ {}.{} width {}",
            self.name,
            self.bit / 8,
            self.bit % 8,
            self.width
        )
    }
}

/// A field's value, ready to print: `Display` gives the field's words.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// A decimal number.
    Number(u64),
    /// A number shown in hex, and its digits.
    Hex(u64, usize),
    /// A code point or mask, and how to say it.
    Coded(u64, fn(u64, &mut fmt::Formatter<'_>) -> fmt::Result),
    /// A global identifier.
    Gid(Gid),
    /// Text from the fabric, shown up to the first NUL with control characters
    /// escaped.
    Text(&'a [u8]),
    /// Bytes, shown in hex.
    Bytes(&'a [u8]),
    /// A secret that was not asked for.
    Hidden,
}

impl Value<'_> {
    /// The bare number, where there is one.
    pub fn number(&self) -> Option<u64> {
        match *self {
            Value::Number(n) | Value::Hex(n, _) | Value::Coded(n, _) => Some(n),
            _ => None,
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Number(n) => n.fmt(f),
            Value::Hex(n, digits) => write!(f, "{n:#0width$x}", width = digits + 2),
            Value::Coded(n, show) => show(n, f),
            Value::Gid(gid) => gid.fmt(f),
            Value::Text(bytes) => text(bytes).fmt(f),
            Value::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Value::Hidden => f.write_str("—hidden—"),
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Numbers become numbers, all else its text.
impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Value::Number(n) => serializer.serialize_u64(n),
            _ => serializer.collect_str(self),
        }
    }
}

/// Text from the fabric made harmless: up to the first NUL, control characters
/// and broken UTF-8 replaced by visible escapes. Inner spaces survive.
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => Cow::Borrowed(text),
        _ => {
            let mut safe = String::with_capacity(bytes.len() + 8);
            for chunk in bytes.utf8_chunks() {
                for c in chunk.valid().chars() {
                    if c.is_control() {
                        safe.extend(c.escape_default());
                    } else {
                        safe.push(c);
                    }
                }
                for byte in chunk.invalid() {
                    safe.extend(std::ascii::escape_default(*byte).map(char::from));
                }
            }
            Cow::Owned(safe)
        }
    }
}

/// A field met while walking an attribute.
#[derive(Clone, Copy)]
pub struct FieldValue<'a> {
    /// What it is.
    pub field: &'static Field,
    /// Which of several values, for tables.
    pub index: Option<usize>,
    bytes: &'a [u8],
}

impl<'a> FieldValue<'a> {
    /// The name, with the index appended as the usual tools do (`VLXmitWait3`).
    pub fn name(&self) -> Cow<'static, str> {
        match self.index {
            None => Cow::Borrowed(self.field.name),
            Some(i) => Cow::Owned(format!("{}{i}", self.field.name)),
        }
    }

    /// The value, secrets hidden.
    pub fn value(&self) -> Value<'a> {
        self.field.value(self.bytes, self.index.unwrap_or(0))
    }

    /// The value, secrets shown.
    pub fn reveal(&self) -> Value<'a> {
        self.field.reveal(self.bytes, self.index.unwrap_or(0))
    }
}

/// Walks all fields of an attribute in declaration order; nested attributes
/// and tables are flattened.
#[derive(Clone)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    rest: std::slice::Iter<'static, Field>,
    current: Option<(&'static Field, usize)>,
    nested: Option<Box<Fields<'a>>>,
}

impl<'a> Fields<'a> {
    /// The fields of `list` in `bytes`; missing bytes read as 0.
    pub fn new(list: &'static [Field], bytes: &'a [u8]) -> Self {
        Fields {
            bytes,
            rest: list.iter(),
            current: None,
            nested: None,
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = FieldValue<'a>;

    fn next(&mut self) -> Option<FieldValue<'a>> {
        loop {
            if let Some(nested) = &mut self.nested {
                if let Some(found) = nested.next() {
                    return Some(found);
                }
                self.nested = None;
            }
            let (field, index) = match self.current.take() {
                Some(at) => at,
                None => (self.rest.next()?, 0),
            };
            if let Show::Nested(list) = field.show {
                let bytes = self.bytes.get(field.bit / 8..).unwrap_or_default();
                self.nested = Some(Box::new(Fields::new(list, bytes)));
                continue;
            }
            if index + 1 < field.count {
                self.current = Some((field, index + 1));
            }
            let index = (field.count > 1).then_some(index);
            return Some(FieldValue {
                field,
                index,
                bytes: self.bytes,
            });
        }
    }
}

/// The management classes in which an attribute ID has its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Subnet management, LID-routed and directed-route.
    Smp,
    /// Subnet administration.
    Sa,
    /// Performance management.
    Perf,
    /// The same in every class.
    Any,
}

impl Family {
    /// Whether MADs of this class carry the family's attributes.
    pub const fn holds(self, class: super::MgmtClass) -> bool {
        use super::MgmtClass as C;
        match self {
            Family::Smp => matches!(class, C::SubnLid | C::SubnDirected),
            Family::Sa => matches!(class, C::SubnAdm),
            Family::Perf => matches!(class, C::Perf),
            Family::Any => true,
        }
    }
}

/// What is known of an attribute without its Rust type.
#[derive(Debug)]
pub struct AttributeInfo {
    /// Where the ID has this meaning.
    pub family: Family,
    /// The attribute ID.
    pub id: u16,
    /// The name of the spec.
    pub name: &'static str,
    /// Length in bytes.
    pub len: usize,
    /// Its fields.
    pub fields: &'static [Field],
}

/// An attribute: `LEN` bytes with a meaning.
///
/// The length is checked when it is made; no access to a field can fail.
pub trait Attribute: Sized + Clone + Default {
    /// Name, ID, fields.
    const INFO: AttributeInfo;
    /// The attribute ID.
    const ID: u16 = Self::INFO.id;
    /// The length in bytes.
    const LEN: usize = Self::INFO.len;
    /// The fields.
    const FIELDS: &'static [Field] = Self::INFO.fields;

    /// Takes the first `LEN` bytes; later ones are padding or a newer spec's.
    fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed>;

    /// The bytes as they go on the wire.
    fn bytes(&self) -> &[u8];

    /// Reads the attribute a MAD says it carries: class and attribute ID must
    /// be this attribute's.
    fn parse(mad: &MadView<'_>) -> Result<Self, Malformed> {
        let info = Self::INFO;
        if mad.attr_id() != info.id || !info.family.holds(mad.class()) {
            return Err(Malformed::OtherAttribute {
                want: info.name,
                class: mad.class(),
                id: mad.attr_id(),
            });
        }
        Self::from_bytes(mad.data())
    }

    /// All fields with their values.
    fn fields(&self) -> Fields<'_> {
        Fields::new(Self::FIELDS, self.bytes())
    }
}

/// Declares an attribute. One line a field:
///
/// ```text
/// getter, setter: Type = byte[first bit .. end bit], "Name", options;
/// ```
///
/// The bit range counts from the most significant bit of that byte and may
/// reach into later bytes; without it the field has the type's width. Options
/// are methods of [`Field`]: `hex`, `secret`, `words`, `packets`, `ticks`,
/// `text`, `raw`.
macro_rules! attribute {
    (
        $(#[$doc:meta])*
        $family:ident $name:ident = $id:literal, $spec:literal, len $len:literal {
            $( $(#[$fdoc:meta])*
               $get:ident, $set:ident: $type:ty
               = $byte:literal $([$from:literal .. $to:literal])?,
               $label:literal $(, $option:ident)* ; )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name([u8; $len]);

        impl $name {
            /// All zeros.
            pub const fn new() -> Self {
                $name([0; $len])
            }

            $(
                #[doc = concat!("`", $label, "`")]
                $(#[$fdoc])*
                #[inline]
                pub fn $get(&self) -> $type {
                    const AT: (usize, usize) = attribute!(@place $type, $byte $([$from .. $to])?);
                    <$type as FieldType>::read(&self.0, AT.0, AT.1)
                }

                #[doc = concat!("Sets `", $label, "`, cut to the field's width.")]
                #[inline]
                pub fn $set(&mut self, value: $type) -> &mut Self {
                    const AT: (usize, usize) = attribute!(@place $type, $byte $([$from .. $to])?);
                    <$type as FieldType>::write(value, &mut self.0, AT.0, AT.1);
                    self
                }
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl $crate::mad::attr::Attribute for $name {
            const INFO: $crate::mad::attr::AttributeInfo = $crate::mad::attr::AttributeInfo {
                family: $crate::mad::attr::Family::$family,
                id: $id,
                name: $spec,
                len: $len,
                fields: const { &[$({
                    const AT: (usize, usize) = attribute!(@place $type, $byte $([$from .. $to])?);
                    $crate::mad::attr::Field::of::<$type>($label, $len, AT.0, AT.1)
                        $(.$option())*
                }),*] },
            };

            fn from_bytes(bytes: &[u8]) -> Result<Self, $crate::mad::Malformed> {
                match bytes.first_chunk::<$len>() {
                    Some(chunk) => Ok($name(*chunk)),
                    None => Err($crate::mad::Malformed::Short {
                        what: $spec,
                        need: $len,
                        have: bytes.len(),
                    }),
                }
            }

            fn bytes(&self) -> &[u8] {
                &self.0
            }
        }

        impl FieldType for $name {
            const BITS: usize = $len * 8;
            const SHOW: $crate::mad::attr::Show = $crate::mad::attr::Show::Nested(
                <$name as $crate::mad::attr::Attribute>::FIELDS,
            );
            fn read(bytes: &[u8], bit: usize, _: usize) -> Self {
                let at = bytes.get(bit / 8..).unwrap_or_default();
                $crate::mad::attr::Attribute::from_bytes(at).unwrap_or_default()
            }
            fn write(self, bytes: &mut [u8], bit: usize, _: usize) {
                let at = bytes.get_mut(bit / 8..).unwrap_or_default();
                for (to, from) in at.iter_mut().zip(self.0) {
                    *to = from;
                }
            }
        }

        /// Secrets hidden.
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($spec)?;
                f.debug_map()
                    .entries($crate::mad::attr::Attribute::fields(self).map(|x| (x.name(), x.value())))
                    .finish()
            }
        }

        #[cfg(test)]
        impl $name {
            /// Any bytes decode and print, every field round-trips and touches
            /// no other's bits, and short bytes are refused.
            pub(crate) fn fuzz(a: &[u8], b: &[u8], cut: usize) {
                use $crate::mad::attr::{Attribute, fuzz};
                let from = $name::from_bytes(a).unwrap();
                let to = $name::from_bytes(b).unwrap();
                let mut at = $name::FIELDS.iter();
                $({
                    let mut set = to;
                    set.$set(from.$get());
                    assert!(set.$get() == from.$get());
                    fuzz::only_this_field_changed(at.next().unwrap(), &a[..$len], &b[..$len], &set.0);
                })*
                fuzz::every_field_prints(&from);
                $name::from_bytes(&a[..cut % $len]).unwrap_err();
            }
        }
    };

    (@place $type:ty, $byte:literal) => {
        ($byte * 8, <$type as FieldType>::BITS)
    };
    (@place $type:ty, $byte:literal [$from:literal .. $to:literal]) => {
        ($byte * 8 + $from, $to - $from)
    };
}

pub(crate) use attribute;

/// What the macro's tests have in common.
#[cfg(test)]
pub(crate) mod fuzz {
    use super::*;

    fn bit(bytes: &[u8], at: usize) -> u8 {
        bytes[at / 8] >> (7 - at % 8) & 1
    }

    /// Bit by bit, and so independent of the accessors: within the field the
    /// bits are `from`'s, elsewhere they are still `before`'s.
    pub fn only_this_field_changed(field: &Field, from: &[u8], before: &[u8], after: &[u8]) {
        let place = field.bit..field.bit + field.width;
        for at in 0..before.len() * 8 {
            let source = if place.contains(&at) { from } else { before };
            assert_eq!(bit(after, at), bit(source, at), "{field:?}, bit {at}");
        }
    }

    pub fn every_field_prints<A: Attribute + fmt::Debug>(attribute: &A) {
        for found in attribute.fields() {
            assert!(!found.name().is_empty());
            let text = found.value().to_string();
            assert!(!text.chars().any(char::is_control), "{text:?}");
            let _ = found.reveal().to_string();
            assert!(serde_json::to_string(&found.value()).is_ok());
            assert_eq!(found.field.secret, matches!(found.value(), Value::Hidden));
        }
        assert!(!format!("{attribute:?}").is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_count_from_the_most_significant() {
        // 0xA5 0x5A = 1010 0101 0101 1010
        let bytes = [0xa5, 0x5a];
        assert_eq!(get_bits(&bytes, 0, 4), 0xa);
        assert_eq!(get_bits(&bytes, 4, 8), 0x55);
        assert_eq!(get_bits(&bytes, 1, 3), 0b010);
        assert_eq!(get_bits(&bytes, 9, 8), 0, "beyond the end");
        assert_eq!(get_bits(&[0xff; 8], 0, 64), u64::MAX);
        let mut bytes = [0xff, 0xff, 0xff];
        put_bits(&mut bytes, 6, 12, 0x123);
        // 11111100 01001000 11111111
        assert_eq!(bytes, [0xfc, 0x48, 0xff]);
        put_bits(&mut bytes, 20, 8, 0);
        assert_eq!(bytes, [0xfc, 0x48, 0xff], "beyond the end");
    }

    #[test]
    fn escape_sequences_in_text_become_visible() {
        assert_eq!(text(b"\x1b[2Jhost  1\0junk"), "\\u{1b}[2Jhost  1");
        assert_eq!(text("knöten".as_bytes()), "knöten");
        assert_eq!(text(b"a\xffb"), "a\\xffb");
        // C1 controls, here CSI, are controls too.
        assert_eq!(text("\u{9b}31m".as_bytes()), "\\u{9b}31m");
    }
}
