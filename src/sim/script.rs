//! What can happen to a simulated fabric, and when.

use std::time::Duration;

use super::fabric::Fabric;
use crate::fabric::{LinkSpeed, LinkWidth, NodeId, NodeKind, PortKey};
use crate::mad::{Mtu, Vls};
use crate::port::Stamp;

/// A counter of a port, as the truth behind every attribute that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Counter {
    /// SymbolErrorCounter.
    SymbolError,
    /// LinkErrorRecoveryCounter.
    LinkErrorRecovery,
    /// LinkDownedCounter.
    LinkDowned,
    /// PortRcvErrors.
    RcvErrors,
    /// PortRcvRemotePhysicalErrors.
    RcvRemotePhysicalErrors,
    /// PortRcvSwitchRelayErrors.
    RcvSwitchRelayErrors,
    /// PortXmitDiscards.
    XmitDiscards,
    /// PortXmitConstraintErrors.
    XmitConstraintErrors,
    /// PortRcvConstraintErrors.
    RcvConstraintErrors,
    /// LocalLinkIntegrityErrors.
    LocalLinkIntegrityErrors,
    /// ExcessiveBufferOverrunErrors.
    ExcessiveBufferOverrunErrors,
    /// QP1Dropped.
    Qp1Dropped,
    /// VL15Dropped.
    Vl15Dropped,
    /// PortXmitWait, on top of what the traffic causes.
    XmitWait,
    /// PortXmitData in words, on top of the traffic.
    XmitData,
    /// PortRcvData in words, on top of the traffic.
    RcvData,
    /// PortXmitPkts, on top of the traffic.
    XmitPkts,
    /// PortRcvPkts, on top of the traffic.
    RcvPkts,
    /// PortMulticastXmitPkts, on top of the traffic.
    MulticastXmitPkts,
    /// PortMulticastRcvPkts, on top of the traffic.
    MulticastRcvPkts,
    /// PortFECCorrectableBlockCtr.
    FecCorrectable,
    /// PortFECUncorrectableBlockCtr.
    FecUncorrectable,
}

impl Counter {
    /// How many there are.
    pub const COUNT: usize = 22;
}

/// Something that happens to the fabric. What names a node or port that is not there does
/// nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The cable at this port is pulled.
    LinkDown(PortKey),
    /// It is plugged in again.
    LinkUp(PortKey),
    /// The link goes down and up again.
    Flap {
        /// One end of it.
        port: PortKey,
        /// How long it is down.
        down: Duration,
        /// How long it is up in between.
        up: Duration,
        /// How often; 0 = for ever.
        times: u32,
    },
    /// The node's management stops: its links stay up, nothing is answered.
    Kill(NodeId),
    /// It answers again.
    Revive(NodeId),
    /// All its links go down: switched off.
    PowerOff(NodeId),
    /// All its links come up again.
    PowerOn(NodeId),
    /// Each answer takes this much longer.
    Slow {
        /// Which node.
        node: NodeId,
        /// How much longer; zero ends it.
        extra: Duration,
    },
    /// A share of requests is answered with status Busy.
    Busy {
        /// Which node.
        node: NodeId,
        /// From 0 to 1.
        share: f64,
    },
    /// A share of requests is lost at the node.
    Drop {
        /// Which node.
        node: NodeId,
        /// From 0 to 1.
        share: f64,
    },
    /// A counter rises at this rate from now on, besides what the traffic adds.
    Errors {
        /// Which port.
        port: PortKey,
        /// Which counter.
        counter: Counter,
        /// Per second; 0 ends it.
        per_second: f64,
    },
    /// A counter rises at once.
    Count {
        /// Which port.
        port: PortKey,
        /// Which counter.
        counter: Counter,
        /// By how much.
        by: u64,
    },
    /// The link at this port runs at another width from now on.
    Width {
        /// One end of it.
        port: PortKey,
        /// The width.
        width: LinkWidth,
    },
    /// The link at this port runs at another speed from now on.
    Speed {
        /// One end of it.
        port: PortKey,
        /// The speed.
        speed: LinkSpeed,
    },
    /// One end of a link is set to another MTU: the other end keeps its own.
    Mtu {
        /// Which end.
        port: PortKey,
        /// NeighborMTU.
        mtu: Mtu,
    },
    /// One end of a link uses other virtual lanes: the other end keeps its own.
    Lanes {
        /// Which end.
        port: PortKey,
        /// OperationalVLs.
        vls: Vls,
    },
    /// Somebody resets all counters of a port.
    ResetCounters(PortKey),
    /// The master SM dies and the standby with the highest priority takes over.
    SmFailover,
    /// The master SM is restarted at the same LID: its activity count starts again, all
    /// subscriptions are forgotten.
    SmRestart,
    /// The master SM hangs: its activity count stands still and the SA is silent.
    SmHang,
    /// The hung SM goes on.
    SmResume,
    /// The standby SM with the highest priority says that it is master, too; the real one
    /// stays.
    SmUsurp,
    /// A port gets another LID, routes follow.
    SetLid {
        /// Which port (0 for a switch).
        port: PortKey,
        /// The new LID.
        lid: u16,
    },
    /// A node describes itself otherwise, and says so in a trap 144.
    Describe {
        /// Which node.
        node: NodeId,
        /// The description: any bytes, of which the first 64 count.
        description: Vec<u8>,
    },
    /// A node sends the same trap again and again.
    TrapFlood {
        /// Which port of which node.
        port: PortKey,
        /// Trap number.
        trap: u16,
        /// How many a second.
        per_second: u32,
        /// How many in all.
        count: u32,
    },
    /// Another node of the same kind takes this one's place.
    Replace {
        /// Which node.
        node: NodeId,
        /// Node GUID of the new one.
        guid: u64,
    },
    /// The node is protected by an M_Key.
    Protect {
        /// Which node.
        node: NodeId,
        /// The key; 0 ends it.
        m_key: u64,
        /// M_KeyProtectBits, 0 to 3.
        bits: u8,
    },
    /// The lease of a node's M_Key: this long after a request with a wrong key, unless one with
    /// the right key comes, the node is protected no more.
    Lease {
        /// Which node.
        node: NodeId,
        /// M_KeyLeasePeriod in seconds; 0 = for ever.
        seconds: u16,
    },
    /// The node's PMA answers with a redirection.
    Redirect {
        /// Which node.
        node: NodeId,
        /// Where to: a port's LID, and the key of the partition in which it answers there;
        /// `None` ends it.
        to: Option<(u16, u16)>,
    },
    /// Our own device is removed.
    DeviceGone,
    /// It can be opened again.
    DeviceBack,
}

/// An action and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When.
    pub at: Stamp,
    /// What.
    pub action: Action,
}

/// What happens to a fabric while it runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// In any order.
    pub steps: Vec<Step>,
}

impl Script {
    /// Nothing happens.
    pub fn new() -> Script {
        Script::default()
    }

    /// Adds a step.
    #[must_use]
    pub fn at(mut self, at: Stamp, action: Action) -> Script {
        self.steps.push(Step { at, action });
        self
    }
}

/// The faults that a simulation has unless told otherwise: a dead host, a link below its width,
/// a port with rising symbol errors, a flapping link and a slow responder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefaultFaults {
    /// The host that answers nothing.
    pub dead: Option<NodeId>,
    /// The host whose link runs at 1x.
    pub narrow: Option<PortKey>,
    /// The host whose link goes down for 5 s every 45 s.
    pub flapping: Option<PortKey>,
    /// The host that takes 150 ms longer for each answer.
    pub slow: Option<NodeId>,
    /// The switch port, with another switch behind it if there is one, whose symbol errors
    /// rise by 25 a second.
    pub noisy: Option<PortKey>,
}

impl DefaultFaults {
    /// Chooses from the nodes that are not in `spare`, in the order of the description: of n
    /// adapters with one link, number n/5 is the dead one, 2n/5 the narrow one, 3n/5 the
    /// flapping one and 4n/5 the slow one; the noisy port is the second one of the first switch
    /// that has a link to an earlier switch.
    ///
    /// In the built-in fabric these are cn013 (dead), cn025 (narrow), gpu09 (flapping), cn028
    /// (slow) and leaf01's port 34 (noisy).
    pub fn choose(fabric: &Fabric, spare: &[usize]) -> DefaultFaults {
        let mut hosts: Vec<(usize, u8)> = Vec::new();
        for node in fabric.hosts().filter(|n| !spare.contains(n)) {
            let ports = fabric.nodes.get(node).map_or(&[][..], |n| &n.ports);
            let mut linked = (0u8..).zip(ports).filter(|(_, p)| p.peer.is_some());
            if let (Some((port, spec)), None) = (linked.next(), linked.next()) {
                let behind_switch = spec
                    .peer
                    .and_then(|(peer, _)| fabric.nodes.get(peer))
                    .is_some_and(|p| p.kind == NodeKind::Switch);
                let own = fabric.nodes.get(node).is_some_and(|n| n.device != 0xcf09);
                if behind_switch && own {
                    hosts.push((node, port));
                }
            }
        }
        let pick = |fifths: usize| -> Option<PortKey> {
            // Fewer than five cannot all have a fault of their own.
            let &(node, port) = hosts
                .get(hosts.len() * fifths / 5)
                .filter(|_| hosts.len() >= 5)?;
            Some(fabric.id(node)?.port(port))
        };
        let is_switch = |n: usize| {
            fabric
                .nodes
                .get(n)
                .is_some_and(|n| n.kind == NodeKind::Switch)
        };
        let mut noisy = None;
        'search: for (index, node) in fabric.nodes.iter().enumerate() {
            for (number, port) in (0u8..).zip(&node.ports) {
                let Some((peer, _)) = port.peer else { continue };
                if is_switch(index) && is_switch(peer) && index > peer {
                    noisy = fabric.id(index).map(|n| n.port(number + 1));
                    // The second such port of the switch, where there is one.
                    let key = (index, number.saturating_add(1));
                    if fabric.port(key).is_none_or(|p| p.peer.is_none()) {
                        noisy = fabric.id(index).map(|n| n.port(number));
                    }
                    break 'search;
                }
            }
        }
        DefaultFaults {
            dead: pick(1).map(|k| k.node),
            narrow: pick(2),
            flapping: pick(3),
            slow: pick(4).map(|k| k.node),
            noisy,
        }
    }

    /// As a script that starts at once.
    pub fn script(&self) -> Script {
        let mut script = Script::new();
        let mut now = |action| {
            script.steps.push(Step {
                at: Stamp::ZERO,
                action,
            });
        };
        if let Some(node) = self.dead {
            now(Action::Kill(node));
        }
        if let Some(port) = self.narrow {
            now(Action::Width {
                port,
                width: LinkWidth::X1,
            });
        }
        if let Some(node) = self.slow {
            now(Action::Slow {
                node,
                extra: Duration::from_millis(150),
            });
        }
        if let Some(port) = self.noisy {
            for (counter, per_second) in [
                (Counter::SymbolError, 25.0),
                (Counter::RcvErrors, 1.5),
                (Counter::LocalLinkIntegrityErrors, 0.01),
                (Counter::FecUncorrectable, 0.2),
            ] {
                now(Action::Errors {
                    port,
                    counter,
                    per_second,
                });
            }
        }
        if let Some(port) = self.flapping {
            script.steps.push(Step {
                at: Stamp::from_secs(20),
                action: Action::Flap {
                    port,
                    down: Duration::from_secs(5),
                    up: Duration::from_secs(40),
                    times: 0,
                },
            });
        }
        script
    }
}
