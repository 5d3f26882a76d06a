//! A field of an attribute, its value, and how that prints.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

use super::attr::{FieldType, get_bits};
use super::{Gid, text};

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

    /// A number as this field's value prints.
    pub(crate) fn words_of(&self, number: u64) -> String {
        match self.show {
            Show::Hex => Value::Hex(number, self.width.div_ceil(4)).to_string(),
            Show::Coded(show) => Value::Coded(number, show).to_string(),
            _ => number.to_string(),
        }
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
        // An index that is not there reads as zero, like all missing bytes.
        let bit = if index < self.count {
            self.bit + index * width
        } else {
            bytes.len() * 8
        };
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
    /// Text from the fabric, shown as [`text`] makes it.
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
