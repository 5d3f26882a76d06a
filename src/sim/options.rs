//! How a fabric is simulated.

use std::time::Duration;

use super::script::Script;
use crate::fabric::NodeId;

/// Where the subnet manager runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SmAt {
    /// On `mgmt1` and `mgmt2` if there are such nodes, else on the first adapter but our own.
    #[default]
    Auto,
    /// Nowhere: no LIDs, no SA, links stay in Init.
    Nowhere,
    /// On this node.
    Node(NodeId),
}

/// Which faults a simulation starts with.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Faults {
    /// Those of [`DefaultFaults`](super::DefaultFaults).
    #[default]
    Default,
    /// None.
    None,
    /// What this script says.
    Script(Script),
}

/// What becomes of a MAD that cannot be delivered or is not answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Undeliverable {
    /// As in a real fabric: silence, until the kernel reports its timeout.
    #[default]
    Silent,
    /// As under ibsim: it comes back at once.
    Returned,
}

/// How a fabric is simulated. Equal options, fabrics and calls give equal answers.
#[derive(Clone, Debug, PartialEq)]
pub struct SimOptions {
    /// Seed of everything that looks random.
    pub seed: u64,
    /// Where we are attached: node (by description, first word of it or GUID) and port; `None`
    /// for where the fabric says, else its first adapter.
    pub local: Option<(String, u8)>,
    /// Time that a MAD takes for each link it crosses, one way.
    pub hop: Duration,
    /// Time that a management processor takes for one MAD; it takes one at a time.
    pub node: Duration,
    /// The node time varies from 1 to 1 + this much of itself.
    pub jitter: f64,
    /// Time that each RMPP segment of a reply adds.
    pub segment: Duration,
    /// Probability that a MAD is lost on its way, each way.
    pub loss: f64,
    /// Mean load that hosts put on their links, as a share; 0 for no traffic.
    pub load: f64,
    /// LID mask control of adapters' ports.
    pub lmc: u8,
    /// Where the subnet manager runs.
    pub sm: SmAt,
    /// Time from a trap's arrival at the SM to the end of its sweep.
    pub sweep: Duration,
    /// Only the limited default P_Key 0x7FFF is in our table.
    pub limited_pkey: bool,
    /// Keys in our table beside that of the default partition, from index 1.
    pub pkeys: Vec<u16>,
    /// Our adapter is a planarized one: IsSMdisabled is set, and no LID-routed SMP leaves it.
    pub planarized: bool,
    /// Another process has taken the SA's Report method.
    pub reports_taken: bool,
    /// Records that the SA shows only to those who know its SM_Key, by attribute ID: others are
    /// denied. opensm does so with P_KeyTableRecord.
    pub sa_trusts: Vec<u16>,
    /// Where the SA is wrong: attribute ID, LID that a record begins with, and a byte of it of
    /// which the last bit is another.
    pub sa_errs: Vec<(u16, u16, usize)>,
    /// The SA's SM_Key. Who gives another one is not answered, as opensm has it.
    pub sm_key: u64,
    /// What becomes of undeliverable MADs.
    pub undeliverable: Undeliverable,
    /// Faults.
    pub faults: Faults,
}

impl Default for SimOptions {
    fn default() -> SimOptions {
        SimOptions {
            seed: 1,
            local: None,
            hop: Duration::from_micros(2),
            node: Duration::from_micros(20),
            jitter: 0.5,
            segment: Duration::from_micros(2),
            loss: 0.0,
            load: 0.35,
            lmc: 0,
            sm: SmAt::Auto,
            sweep: Duration::from_millis(50),
            limited_pkey: false,
            pkeys: Vec::new(),
            planarized: false,
            reports_taken: false,
            sa_trusts: Vec::new(),
            sa_errs: Vec::new(),
            sm_key: 1,
            undeliverable: Undeliverable::Silent,
            faults: Faults::Default,
        }
    }
}

impl SimOptions {
    /// The defaults, but nothing goes wrong.
    pub fn healthy() -> SimOptions {
        SimOptions {
            faults: Faults::None,
            ..SimOptions::default()
        }
    }
}
