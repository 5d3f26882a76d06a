//! Names of attributes: the declared ones, and those only seen passing by.

use super::attr::Family;
use super::{MgmtClass, registry};

/// What [`attribute`] says of an ID it does not know.
pub const UNKNOWN: &str = "unknown";

/// Attributes that have a name but no declaration here.
const NAME_ONLY: &[(Family, u16, &str)] = &[
    (Family::Smp, 0x1a, "RandomForwardingTable"),
    (Family::Smp, 0x1c, "LinkSpeedWidthPairsTable"),
    (Family::Smp, 0x1d, "VendorSpecificMadsTable"),
    (Family::Smp, 0x1e, "HierarchyInfo"),
    (Family::Smp, 0x30, "VendorDiag"),
    (Family::Smp, 0x31, "LedInfo"),
    (Family::Smp, 0x32, "CableInfo"),
    (Family::Perf, 0x11, "PortSamplesResult"),
    (Family::Sa, 0x13, "SLtoVLMappingTableRecord"),
    (Family::Sa, 0x17, "MulticastForwardingTableRecord"),
    (Family::Sa, 0x30, "GuidInfoRecord"),
    (Family::Sa, 0x36, "VLArbitrationTableRecord"),
    (Family::Sa, 0x39, "TraceRecord"),
    (Family::Sa, 0x3a, "MultiPathRecord"),
    (Family::Sa, 0x3b, "ServiceAssociationRecord"),
];

/// The spec's name of an attribute, or [`UNKNOWN`].
pub fn attribute(class: MgmtClass, id: u16) -> &'static str {
    if let Some(info) = registry::find(class, id) {
        return info.name;
    }
    NAME_ONLY
        .iter()
        .find(|(family, other, _)| *other == id && family.holds(class))
        .map_or(UNKNOWN, |(_, _, name)| name)
}

/// The same, with its number where it has no name.
pub fn attribute_or_number(class: MgmtClass, id: u16) -> std::borrow::Cow<'static, str> {
    match attribute(class, id) {
        UNKNOWN => format!("attribute {id:#06x}").into(),
        name => name.into(),
    }
}
