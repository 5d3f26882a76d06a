//! What the screens read: the model's views, behind a trait so that screens can be drawn from
//! rows made by hand.

use std::time::Duration;

use crate::fabric::{NodeId, NodeKind, PortKey};
use crate::model::view::{
    AlertRow, DestinationRow, HeaderView, InFlightRow, LogLine, PathView, PortDetail, PortRow,
    SaDifference, SaTableView, SmRow, TotalsView, TrafficRow, UsesView, Wanted,
};
use crate::model::{Baseline, Model, Part};
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
    /// Every port, errors counted from a baseline on if there is one.
    fn ports(&self, from: Option<&Baseline>, now: Stamp) -> Vec<PortRow<'_>>;
    /// How many ports there are, about.
    fn port_count(&self) -> usize;
    /// Which ports have rows, in order of GUID and port.
    fn port_list(&self) -> Vec<PortKey>;
    /// Grows whenever that list, or a name, is another one.
    fn layout(&self) -> u64;
    /// Grows whenever a row of this node's ports could show something else, but for its age.
    fn changed(&self, node: NodeId) -> u64;
    /// The same, but for counters and flags.
    fn shape(&self, node: NodeId) -> u64;
    /// One row of [`Facts::ports`].
    fn port(&self, key: PortKey, from: Option<&Baseline>, now: Stamp) -> Option<PortRow<'_>>;
    /// The rows of [`Facts::ports`] that a node has, in order of port, as far as they are wanted.
    fn each_port<'m>(
        &'m self,
        node: NodeId,
        from: Option<&Baseline>,
        now: Stamp,
        want: Wanted,
        each: &mut dyn FnMut(PortRow<'m>),
    );
    /// One row of [`Facts::traffic`].
    fn traffic_of(&self, key: PortKey, now: Stamp) -> Option<TrafficRow<'_>>;
    /// The rows of [`Facts::traffic`] that a node has, in order of port, as far as they are
    /// wanted.
    fn each_traffic<'m>(
        &'m self,
        node: NodeId,
        now: Stamp,
        want: Wanted,
        each: &mut dyn FnMut(TrafficRow<'m>),
    );
    /// One node's part of [`Facts::totals`].
    fn totals_of(&self, node: NodeId, now: Stamp) -> Part;
    /// Every port with a link.
    fn traffic(&self, now: Stamp) -> Vec<TrafficRow<'_>>;
    /// Sums over the fabric.
    fn totals(&self, now: Stamp) -> TotalsView;
    /// Requests in flight.
    fn in_flight(&self, now: Stamp) -> Vec<InFlightRow<'_>>;
    /// Who answers how well.
    fn destinations(&self, now: Stamp) -> Vec<DestinationRow<'_>>;
    /// Every alert, the open ones first.
    fn alerts(&self) -> Vec<AlertRow<'_>>;
    /// Whom an alert's counters blame.
    fn suspicion(&self, alert: &AlertRow<'_>) -> Option<String>;
    /// The event log, oldest first.
    fn log(&self) -> impl Iterator<Item = &LogLine>;
    /// The line of the log that was added or counted up last.
    fn latest(&self) -> Option<&LogLine>;
    /// Wall time, nanoseconds since the Unix epoch.
    fn wall(&self, at: Stamp) -> i64;
    /// The counter interval in force.
    fn interval(&self) -> Duration;
    /// The path from a port to a LID by the forwarding tables.
    fn path(&self, _: PortKey, _: u16, _: Stamp) -> Option<PathView<'_>> {
        None
    }
    /// Who is reached by a port.
    fn uses(&self, _: PortKey, _: Stamp) -> Option<UsesView<'_>> {
        None
    }
    /// The port at which a path through this one's node begins or ends: a switch's port 0, an
    /// adapter's own.
    fn end_port(&self, _: PortKey) -> Option<PortKey> {
        None
    }
    /// A port's base LID and LMC.
    fn lids(&self, _: PortKey) -> Option<(u16, u8)> {
        None
    }
    /// Every subnet manager.
    fn subnet_managers(&self, _: Stamp) -> Vec<SmRow<'_>> {
        Vec::new()
    }
    /// Every table of the SA.
    fn sa_tables(&self, _: Stamp) -> Vec<SaTableView> {
        Vec::new()
    }
    /// Where the SA and discovery differ; how many more; how many were seen only once.
    fn sa_differences(&self, _: Stamp) -> (Vec<SaDifference>, usize, usize) {
        (Vec::new(), 0, 0)
    }
    /// One port in full, counted from a baseline on if there is one.
    fn detail(&self, key: PortKey, from: Option<&Baseline>, now: Stamp) -> Option<PortDetail<'_>>;
    /// What every port has counted by now.
    fn baseline(&self, now: Stamp) -> Baseline;
}

impl Facts for Model {
    fn revision(&self) -> u64 {
        Model::revision(self)
    }
    fn closed(&self) -> Option<&str> {
        Model::closed(self)
    }
    fn name(&self, node: NodeId) -> &str {
        Model::name(self, node)
    }
    fn header(&self, now: Stamp) -> HeaderView<'_> {
        Model::header(self, now)
    }
    fn ports(&self, from: Option<&Baseline>, now: Stamp) -> Vec<PortRow<'_>> {
        Model::ports_since(self, from, now)
    }
    fn port_count(&self) -> usize {
        Model::port_count(self)
    }
    fn port_list(&self) -> Vec<PortKey> {
        Model::port_list(self)
    }
    fn layout(&self) -> u64 {
        Model::layout(self)
    }
    fn changed(&self, node: NodeId) -> u64 {
        Model::changed(self, node)
    }
    fn shape(&self, node: NodeId) -> u64 {
        Model::shape(self, node)
    }
    fn port(&self, key: PortKey, from: Option<&Baseline>, now: Stamp) -> Option<PortRow<'_>> {
        Model::port_since(self, key, from, now)
    }
    fn each_port<'m>(
        &'m self,
        node: NodeId,
        from: Option<&Baseline>,
        now: Stamp,
        want: Wanted,
        each: &mut dyn FnMut(PortRow<'m>),
    ) {
        Model::each_port(self, node, from, now, want, each);
    }
    fn traffic_of(&self, key: PortKey, now: Stamp) -> Option<TrafficRow<'_>> {
        Model::traffic_of(self, key, now)
    }
    fn each_traffic<'m>(
        &'m self,
        node: NodeId,
        now: Stamp,
        want: Wanted,
        each: &mut dyn FnMut(TrafficRow<'m>),
    ) {
        Model::each_traffic(self, node, now, want, each);
    }
    fn totals_of(&self, node: NodeId, now: Stamp) -> Part {
        Model::totals_of(self, node, now)
    }
    fn traffic(&self, now: Stamp) -> Vec<TrafficRow<'_>> {
        Model::traffic(self, now)
    }
    fn totals(&self, now: Stamp) -> TotalsView {
        Model::totals(self, now)
    }
    fn in_flight(&self, now: Stamp) -> Vec<InFlightRow<'_>> {
        Model::in_flight(self, now)
    }
    fn destinations(&self, now: Stamp) -> Vec<DestinationRow<'_>> {
        Model::destinations(self, now)
    }
    fn alerts(&self) -> Vec<AlertRow<'_>> {
        Model::alerts(self)
    }
    fn suspicion(&self, alert: &AlertRow<'_>) -> Option<String> {
        Model::suspicion(self, alert)
    }
    fn log(&self) -> impl Iterator<Item = &LogLine> {
        Model::log(self).iter()
    }
    fn latest(&self) -> Option<&LogLine> {
        Model::latest(self)
    }
    fn wall(&self, at: Stamp) -> i64 {
        Model::wall(self, at)
    }
    fn interval(&self) -> Duration {
        Model::interval(self)
    }
    fn path(&self, from: PortKey, lid: u16, now: Stamp) -> Option<PathView<'_>> {
        Some(Model::path(self, from, lid, now))
    }
    fn uses(&self, port: PortKey, now: Stamp) -> Option<UsesView<'_>> {
        Model::uses(self, port, now)
    }
    fn end_port(&self, key: PortKey) -> Option<PortKey> {
        let switch = self.topology().node(key.node)?.kind == NodeKind::Switch;
        let end = key.node.port(if switch { 0 } else { key.port });
        self.lids(end).map(|_| end)
    }
    fn lids(&self, key: PortKey) -> Option<(u16, u8)> {
        let node = self.topology().node(key.node)?;
        let lmc = node.port(key.port)?.info.as_ref()?.lmc();
        Some((node.lid(key.port)?, lmc))
    }
    fn subnet_managers(&self, now: Stamp) -> Vec<SmRow<'_>> {
        Model::subnet_managers(self, now)
    }
    fn sa_tables(&self, now: Stamp) -> Vec<SaTableView> {
        Model::sa_tables(self, now)
    }
    fn sa_differences(&self, now: Stamp) -> (Vec<SaDifference>, usize, usize) {
        Model::sa_differences(self, now)
    }
    fn detail(&self, key: PortKey, from: Option<&Baseline>, now: Stamp) -> Option<PortDetail<'_>> {
        Model::detail_since(self, key, from, now)
    }
    fn baseline(&self, now: Stamp) -> Baseline {
        Model::baseline(self, now)
    }
}
