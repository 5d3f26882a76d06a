//! Every declared attribute, for what is done without knowing the type:
//! traces, detail views, blanking of secrets.

use super::*;

macro_rules! registry {
    ($($name:ident)*) => {
        /// All declared attributes.
        pub static ALL: &[AttributeInfo] = &[$(<$name as Attribute>::INFO),*];

        #[cfg(test)]
        mod tests {
            use super::*;

            const LONGEST: usize = 256;

            proptest::proptest! {
                #[test]
                fn any_bytes_decode_and_every_field_round_trips(
                    a in proptest::collection::vec(proptest::num::u8::ANY, LONGEST),
                    b in proptest::collection::vec(proptest::num::u8::ANY, LONGEST),
                    cut: usize,
                ) {
                    $( $name::fuzz(&a, &b, cut); )*
                }
            }

            #[test]
            fn names_are_unique_in_an_attribute() {
                for info in ALL {
                    let bytes = [0; LONGEST];
                    let mut names: Vec<_> =
                        Fields::new(info.fields, &bytes).map(|field| field.name()).collect();
                    let all = names.len();
                    names.sort();
                    names.dedup();
                    assert_eq!(names.len(), all, "{}", info.name);
                }
            }

            #[test]
            fn fields_do_not_overlap() {
                for info in ALL {
                    let mut fields: Vec<_> = info.fields.iter().collect();
                    fields.sort_by_key(|field| field.bit);
                    for pair in fields.windows(2) {
                        assert!(pair[0].bit + pair[0].width <= pair[1].bit, "{}: {pair:?}", info.name);
                    }
                }
            }
        }
    };
}

registry! {
    ClassPortInfo ReportedNotice Notice InformInfo
    NodeInfo NodeDescription SwitchInfo SmInfo PortInfo GuidInfo PKeyTable SlToVl VlArbitration
    LinearForwardingTable MulticastForwardingTable PortInfoExtended MlnxExtPortInfo
    PortCounters PortCountersExtended PortSamplesControl PortRcvErrorDetails
    PortXmitDiscardDetails PortOpRcvCounters PortFlowCtlCounters PortVlOpPackets PortVlOpData
    PortVlXmitFlowCtlUpdateErrors PortVlXmitWait PortExtendedSpeeds PortExtendedSpeedsRsFec
    SwPortVlCongestion PortRcvConCtrl PortSlRcvFecn PortSlRcvBecn PortXmitConCtrl
    PortVlXmitTimeCong PortXmitDataSl PortRcvDataSl
    NodeRecord PortInfoRecord SwitchInfoRecord LftRecord SmInfoRecord InformInfoRecord LinkRecord
    ServiceRecord PKeyTableRecord PathRecord McMemberRecord
}

/// The declaration of an attribute, if there is one.
pub fn find(class: MgmtClass, id: u16) -> Option<&'static AttributeInfo> {
    // The SA has its own Notice; elsewhere that of all classes applies.
    ALL.iter()
        .find(|info| info.id == id && info.family.holds(class))
}

/// The fields of the attribute a MAD carries (of a table: of its first record).
/// `None` if the attribute has no declaration.
pub fn fields<'a>(mad: &MadView<'a>) -> Option<Fields<'a>> {
    let info = find(mad.class(), mad.attr_id())?;
    Some(Fields::new(info.fields, mad.data()))
}
