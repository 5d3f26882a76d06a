//! What an attribute is: a table of fields over a fixed number of bytes, and
//! the macro that declares one.
//!
//! A field is written down once, in the `attribute!` macro: from it come the typed
//! getter and setter, the row in the field list that detail views, JSON and
//! traces print, its secrecy, and its fuzz test.

use super::field::{Field, Fields, Show};
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
#[derive(Clone, Copy, Debug)]
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
                    $crate::mad::field::Field::of::<$type>($label, $len, AT.0, AT.1)
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
            const SHOW: $crate::mad::field::Show = $crate::mad::field::Show::Nested(
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
    use std::fmt;

    use super::super::Value;
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
}
