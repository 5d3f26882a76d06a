//! What the screens read: the model's views, behind a trait so that screens can be drawn from
//! rows made by hand.

use crate::fabric::{NodeId, PortKey};
use crate::model::Model;
use crate::model::view::{
    DestinationRow, HeaderView, InFlightRow, LogLine, PortDetail, PortRow, TotalsView, TrafficRow,
};
use crate::port::Stamp;

/// A source of views. Cloned to hold a view still while the original goes on.
pub trait Facts: Clone {
    /// Grows whenever a view could show something else.
    fn revision(&self) -> u64;
    /// Why the session ended, if it did.
    fn closed(&self) -> Option<&str>;
    /// A node's name.
    fn name(&self, node: NodeId) -> &str;
    /// The header.
    fn header(&self, now: Stamp) -> HeaderView<'_>;
    /// Every port.
    fn ports(&self, now: Stamp) -> Vec<PortRow<'_>>;
    /// Every port with a link.
    fn traffic(&self, now: Stamp) -> Vec<TrafficRow<'_>>;
    /// Sums over the fabric.
    fn totals(&self, now: Stamp) -> TotalsView;
    /// Requests in flight.
    fn in_flight(&self, now: Stamp) -> Vec<InFlightRow<'_>>;
    /// Who answers how well.
    fn destinations(&self, now: Stamp) -> Vec<DestinationRow<'_>>;
    /// The event log, oldest first.
    fn log(&self) -> impl DoubleEndedIterator<Item = &LogLine> + ExactSizeIterator;
    /// One port in full.
    fn detail(&self, key: PortKey, now: Stamp) -> Option<PortDetail<'_>>;
}
