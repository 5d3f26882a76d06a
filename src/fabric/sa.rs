//! What the subnet administration says, and where it differs from what discovery saw.
//!
//! The comparison is a function of one table and of the topology at the moment the table came:
//! engine and model make it alike. Neither is right by itself (a link may have come or gone
//! between the two), so a difference counts only once a second reading, made after the ports
//! concerned were asked again, shows it too.

mod compare;

use serde::{Deserialize, Serialize};

pub use self::compare::{Difference, Reread, SeenSm, differences};
use crate::mad::{
    Attribute, AttributeInfo, Field, InformInfoRecord, LftRecord, LinkRecord, McMemberRecord,
    NodeRecord, PKeyTableRecord, PathRecord, PortInfoRecord, ServiceRecord, Show, SmInfoRecord,
    SwitchInfoRecord,
};

/// The tables of the SA that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SaTable {
    /// NodeRecord.
    Nodes,
    /// LinkRecord.
    Links,
    /// SwitchInfoRecord.
    Switches,
    /// SMInfoRecord.
    Sms,
    /// PortInfoRecord.
    Ports,
    /// PathRecord, from the local port.
    Paths,
    /// MCMemberRecord.
    Groups,
    /// ServiceRecord.
    Services,
    /// InformInfoRecord.
    Subscriptions,
    /// P_KeyTableRecord.
    Pkeys,
    /// LinearForwardingTableRecord.
    Lft,
}

impl SaTable {
    /// All of them: first those that are compared.
    pub const ALL: [SaTable; 11] = [
        SaTable::Nodes,
        SaTable::Links,
        SaTable::Switches,
        SaTable::Sms,
        SaTable::Ports,
        SaTable::Paths,
        SaTable::Groups,
        SaTable::Services,
        SaTable::Subscriptions,
        SaTable::Pkeys,
        SaTable::Lft,
    ];

    /// Those that are compared with what discovery saw.
    pub const COMPARED: [SaTable; 5] = [
        SaTable::Nodes,
        SaTable::Links,
        SaTable::Switches,
        SaTable::Sms,
        SaTable::Ports,
    ];

    /// The declaration of its records.
    pub const fn info(self) -> AttributeInfo {
        match self {
            SaTable::Nodes => NodeRecord::INFO,
            SaTable::Links => LinkRecord::INFO,
            SaTable::Switches => SwitchInfoRecord::INFO,
            SaTable::Sms => SmInfoRecord::INFO,
            SaTable::Ports => PortInfoRecord::INFO,
            SaTable::Paths => PathRecord::INFO,
            SaTable::Groups => McMemberRecord::INFO,
            SaTable::Services => ServiceRecord::INFO,
            SaTable::Subscriptions => InformInfoRecord::INFO,
            SaTable::Pkeys => PKeyTableRecord::INFO,
            SaTable::Lft => LftRecord::INFO,
        }
    }

    /// The attribute's ID.
    pub const fn id(self) -> u16 {
        self.info().id
    }

    /// The attribute's name.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The fields of a record.
    pub const fn fields(self) -> &'static [Field] {
        self.info().fields
    }

    /// The value of one of its records' fields, in words.
    pub fn words(self, field: &str, value: u64) -> String {
        fn find(list: &'static [Field], name: &str) -> Option<&'static Field> {
            list.iter().find_map(|field| match field.show {
                Show::Nested(inner) => find(inner, name),
                _ => (field.name == name).then_some(field),
            })
        }
        find(self.fields(), field).map_or_else(|| value.to_string(), |f| f.words_of(value))
    }

    /// A short name, as the command line takes it.
    pub const fn word(self) -> &'static str {
        match self {
            SaTable::Nodes => "nodes",
            SaTable::Links => "links",
            SaTable::Switches => "switches",
            SaTable::Sms => "sms",
            SaTable::Ports => "ports",
            SaTable::Paths => "paths",
            SaTable::Groups => "groups",
            SaTable::Services => "services",
            SaTable::Subscriptions => "subscriptions",
            SaTable::Pkeys => "pkeys",
            SaTable::Lft => "lft",
        }
    }

    /// The table of records of this attribute.
    pub fn of(id: u16) -> Option<SaTable> {
        SaTable::ALL.into_iter().find(|t| t.id() == id)
    }

    /// By its short name or its attribute's name.
    pub fn by_name(name: &str) -> Option<SaTable> {
        SaTable::ALL
            .into_iter()
            .find(|t| t.word() == name || t.name().eq_ignore_ascii_case(name))
    }
}
